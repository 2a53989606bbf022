"""Pictures of the state machines, and the table of what storage's answers lead to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Final, get_args

from attrs import evolve
from messenger_jobs.domain.call_recording import RecordingStatus
from messenger_jobs.domain.evidence import (
    Empty,
    Evidence,
    Found,
    Missing,
    RecordingFormat,
    StorageMisconfigured,
    Unreachable,
    Unsupported,
)
from messenger_jobs.domain.finalization import (
    Claim,
    FinalizationRules,
    FinalizeSnapshot,
    open_attempt,
    settle,
)

from tools.reference.exploration import Step
from tools.reference.machines import (
    MAX_ATTEMPTS,
    NOW,
    SOME_ID,
    a_recording,
    finalize_machine,
    provision_machine,
    recording_machine,
)

_TEXT: Final = """\
# State machines

Drawn by making every transition of the domain from every state that can be reached: what is not here does not happen.
An arrow bears the method's name, and after the slash the event that it returns. A state without a way out is
terminal.

## Deal chat provision

A row of `messenger.deal_chat_provisions`. "Attempts used up" is what operators call poison: automatic retries have
ended, and only `messenger-jobs requeue` leads on.

{provision}

## Recording finalize row

A row of `messenger.recording_finalize_attempts`: the intent to finish a recording. `claimed` counts an attempt before
storage is asked, `released` takes it back, `deferred` waits without counting. `Quarantined` waits for an operator, or
for the late callback that makes it `Done`.

{finalize}

## Call recording

A row of `messenger.call_recordings`, as far as this package moves it. `Pending`, `Recording` and `Uploading` are the
recorder's; a `Recording` one that becomes available passes through `Uploading` within the same transaction.

{recording}

### What storage's answer leads to

For a claimed row of a recording whose time is over. *Counted* says whether the attempt stays counted.

| Storage's answer | Verdict | Row | Recording | Counted | On the last attempt |
|---|---|---|---|---|---|
{evidence}
"""

EVIDENCE: Final[Mapping[type[Evidence], Evidence]] = {
    Found: Found(
        file_id=SOME_ID,
        size_bytes=1,
        format=RecordingFormat.MP4,
        stated_duration=None,
        measured_duration=timedelta(seconds=1),
    ),
    Missing: Missing(),
    Empty: Empty(),
    Unsupported: Unsupported(code="SOME_CODE"),
    Unreachable: Unreachable(code="SOME_CODE", connection_failed=True),
    StorageMisconfigured: StorageMisconfigured(code="SOME_CODE"),
}
"""One of each kind."""

assert set(EVIDENCE) == set(get_args(Evidence))


def state_machines_page() -> str:
    """The page."""
    return _TEXT.format(
        provision=picture(
            # With a single attempt allowed, the first one is the last.
            [*provision_machine().steps(), *provision_machine(max_attempts=1).steps()],
            first=["Provisioning"],
        ),
        finalize=picture(finalize_machine().steps(), first=["Pending"]),
        recording=picture(recording_machine().steps(), first=[]),
        evidence="\n".join(map(_row, EVIDENCE)),
    )


def picture(steps: Iterable[Step], *, first: Iterable[str]) -> str:
    """The machine as a Mermaid state diagram; arrows between the same two states are one."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for step in steps:
        label = step.name if step.event is None else f"{step.name} / {step.event}"
        labels = arrows.setdefault((step.origin, step.end), [])
        labels += [label] if label not in labels else []
    states = list(dict.fromkeys([*first, *(state for arrow in arrows for state in arrow)]))
    lines = [f'    state "{state}" as {_id(state)}' for state in states if _id(state) != state]
    lines += [f"    [*] --> {_id(state)}" for state in first]
    lines += [
        f"    {_id(origin)} --> {_id(end)}: {'<br>'.join(labels)}" for (origin, end), labels in arrows.items()
    ]
    lines += [f"    {_id(state)} --> [*]" for state in states if all(origin != state for origin, _ in arrows)]
    return "\n".join(["```mermaid", "stateDiagram-v2", *lines, "```"])


def _id(state: str) -> str:
    return "".join(word.capitalize() if word.islower() else word for word in state.replace(",", "").split())


def _row(kind: type[Evidence]) -> str:
    first, last = (_settled(EVIDENCE[kind], attempts) for attempts in (0, MAX_ATTEMPTS - 1))
    (verdict, row, recording, counted), differently = first, "the same" if last[:3] == first[:3] else last[0]
    return f"| `{kind.__name__}` | {verdict} | `{row}` | `{recording}` | {counted} | {differently} |"


def _settled(evidence: Evidence, attempts: int) -> tuple[str, str, str, str]:
    """Verdict, status of the row and of the recording, and whether the attempt stays counted."""
    rules = FinalizationRules(max_attempts=MAX_ATTEMPTS)
    recording = a_recording(RecordingStatus.UPLOADING)
    (entry,) = finalize_machine().first
    entry = evolve(entry, schedule=evolve(entry.schedule, attempts=attempts))
    seen = FinalizeSnapshot(entry=entry, recording=recording, event_recorded=False)
    claim = open_attempt(seen, now=NOW, spread=0.0, rules=rules)
    assert isinstance(claim, Claim)
    verdict = settle(evolve(seen, entry=claim.entry), evidence, given_back_to=NOW, now=NOW, rules=rules)
    counted = "yes" if verdict.entry.schedule.attempts > attempts else "no"
    moved = getattr(verdict, "recording", recording)
    return type(verdict).__name__, verdict.entry.status, moved.status, counted
