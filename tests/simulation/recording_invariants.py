"""What must never happen to recordings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from messenger_jobs.application.integration_events import call_recording_available_key
from messenger_jobs.application.ports.realtime_outbox import RealtimeKind
from messenger_jobs.domain.call_recording import CallRecording, RecordingStatus
from messenger_jobs.domain.evidence import (
    Empty,
    Evidence,
    Found,
    Missing,
    StorageMisconfigured,
    Unreachable,
    Unsupported,
)
from messenger_jobs.domain.recording_finalize import FinalizeStatus, RecordingFinalize

from tests.simulation.monitor import Change, Invariant, Step
from tests.simulation.names import named
from tests.simulation.provision_invariants import LAST_ERROR
from tests.simulation.world import BACKOFF, FINALIZATION_RULES, MAX_ATTEMPTS

JOB: Final = "recording-job"
REQUEUES: Final = "requeue-finalizations"


def _became(step: Step[CallRecording], status: RecordingStatus) -> bool:
    before = step.before
    return (
        step.after is not None
        and step.after.status is status
        and (before is None or before.status is not status)
    )


def _told(change: Change, recording: CallRecording | None) -> list[Evidence]:
    """What storage has said of the recording's object to the process that made the change."""
    if recording is None or change.by is None:
        return []
    return change.by.facts.told.get(recording.object_key, [])


def _told_of_any(change: Change) -> list[Evidence]:
    told = {} if change.by is None else change.by.facts.told
    return [evidence for each in told.values() for evidence in each]


def available_without_its_message(change: Change) -> Iterator[str]:
    keys = {row.message.dedupe_key for row in change.after.outbox.values()}

    def told(recording: CallRecording) -> bool:
        return call_recording_available_key(recording.id) in keys

    for step in change.recordings:
        became = change.by is not None and _became(step, RecordingStatus.AVAILABLE)
        if became and step.after is not None and not told(step.after):
            yield f"{named(step.after.id)} is available, and nobody knows"
    for each in change.entries:
        entry = each.after
        recording = None if entry is None else change.after.recordings.get(entry.recording_id)
        if entry is None or entry.status is not FinalizeStatus.DONE:
            continue
        if recording is None or not recording.terminal:
            yield f"{named(entry.id)} is done before its recording"
        elif recording.status is RecordingStatus.AVAILABLE and not told(recording):
            yield f"{named(entry.id)} is done, and nobody knows of the recording"


def message_without_its_recording(change: Change) -> Iterator[str]:
    told: list[object] = []
    recordings = {str(recording.id): recording for recording in change.after.recordings.values()}
    for row in change.after.outbox.values():
        message = row.message
        if message.aggregate_type != "CallRecording":
            continue
        told.append(message.payload["recordingId"])
        recording = recordings.get(str(message.payload["recordingId"]))
        if recording is None or recording.media is None or recording.status is not RecordingStatus.AVAILABLE:
            yield f"message {row.id} about a recording that is not available"
        elif message.payload["fileId"] != str(recording.media.file_id):
            yield f"message {row.id} about another file than {named(recording.media.file_id)}"
    if len(told) != len(set(told)):
        yield "a recording is announced twice"


def clients_told_wrongly(change: Change) -> Iterator[str]:
    told = [(notice.reference_id, notice.kind) for notice in change.after.notices.values()]
    if len(told) != len(set(told)):
        yield "clients are told twice"
    for id_, kind in told:
        recording = change.after.recordings.get(id_)
        status = None if recording is None else recording.status
        wanted = (
            RecordingStatus.AVAILABLE if kind is RealtimeKind.RECORDING_AVAILABLE else RecordingStatus.FAILED
        )
        if status is not wanted:
            yield f"clients are told {kind} of {named(id_)}, which is {status}"
    for step in change.recordings:
        if change.by is None or step.after is None:
            continue
        kind = (
            RealtimeKind.RECORDING_FAILED
            if _became(step, RecordingStatus.FAILED)
            else RealtimeKind.RECORDING_AVAILABLE
        )
        became = _became(step, RecordingStatus.FAILED) or _became(step, RecordingStatus.AVAILABLE)
        if became and (step.after.id, kind) not in told:
            yield f"clients are not told {kind} of {named(step.after.id)}"


def left_a_final_state(change: Change) -> Iterator[str]:
    for entry in change.entries:
        if entry.before is not None and entry.before.status is FinalizeStatus.DONE:
            yield named(entry.before.id)
    for recording in change.recordings:
        if recording.before is not None and recording.before.terminal:
            yield named(recording.before.id)


def version_stood_still(change: Change) -> Iterator[str]:
    for table in (change.entries, change.recordings):
        for step in table:
            before, after = step.before, step.after
            if before is not None and after is not None and after.version != before.version + 1:
                yield f"{named(after.id)}: {before.version} to {after.version}"


def declared_lost_unasked(change: Change) -> Iterator[str]:
    for step in change.recordings:
        if change.by is not None and _became(step, RecordingStatus.FAILED) and step.after is not None:
            told = _told(change, step.after)
            if not any(isinstance(evidence, Missing | Empty) for evidence in told):
                yield f"{named(step.after.id)}, of which storage said {told}"


def adopted_something_else(change: Change) -> Iterator[str]:
    for step in change.recordings:
        recording = step.after
        if change.by is None or not change.by.name.startswith(JOB) or recording is None:
            continue
        told = _told(change, recording)
        files = [each.file_id for each in told if isinstance(each, Found)]
        adopted = None if recording.media is None else recording.media.file_id
        if _became(step, RecordingStatus.AVAILABLE) and adopted not in files:
            yield f"{named(recording.id)}, of which storage said {told}"


def attempt_counted_for_no_reason(change: Change) -> Iterator[str]:
    for step in change.entries:
        before, after, by = step.before, step.after, change.by
        if before is None or after is None or by is None:
            continue
        counted = after.schedule.attempts - before.schedule.attempts
        if by.name.startswith(REQUEUES):
            if after.schedule.attempts != 0 or after.status is not FinalizeStatus.PENDING:
                yield f"{named(after.id)} was requeued to {after.status} with {after.schedule.attempts}"
        elif counted == 1:
            yield from _unfounded_claim(change, after)
        elif counted in (0, -1):
            yield from _unfounded_settling(change, after, given_back=counted == -1)
        else:
            yield f"{named(after.id)} counts {counted}"


def attempt_counted_twice_in_a_cycle(change: Change) -> Iterator[str]:
    for step in change.entries:
        before, after, by = step.before, step.after, change.by
        if before is None or after is None or by is None or not by.name.startswith(JOB):
            continue
        if after.schedule.attempts == before.schedule.attempts + 1:
            if after.id in by.facts.counted:
                yield f"{named(after.id)} by {by.name}"
            by.facts.counted.add(after.id)


def _unfounded_claim(change: Change, entry: RecordingFinalize) -> Iterator[str]:
    recording = change.after.recordings.get(entry.recording_id)
    if recording is None or (change.by is not None and change.by.facts.rejections):
        return
    ended = recording.session_ended_at
    if ended is None or change.now - ended < FINALIZATION_RULES.finalize_sla_timeout:
        yield f"{named(entry.id)} pays for waiting"


def _unfounded_settling(change: Change, entry: RecordingFinalize, *, given_back: bool) -> Iterator[str]:
    told = _told(change, change.after.recordings.get(entry.recording_id))
    unsettled = change.by is not None and change.by.facts.unsettled
    # A row that was not asked for itself, since it waited meanwhile, is told what others were.
    heard = told or _told_of_any(change)
    silent = any(isinstance(each, Unreachable | StorageMisconfigured) for each in heard)
    left = not told and change.by is not None and not change.by.facts.may_begin()
    if given_back and not (silent or unsettled or left):
        yield f"{named(entry.id)} was given back, of which storage said {heard}"
    kept = entry.status is FinalizeStatus.PENDING and not given_back
    rejected = change.by is not None and change.by.facts.rejections
    if kept and told and not rejected and all(isinstance(each, StorageMisconfigured) for each in told):
        yield f"{named(entry.id)} pays for a configuration fault"


def quarantined_for_no_reason(change: Change) -> Iterator[str]:
    for step in change.entries:
        after = step.after
        if after is None or change.by is None or after.status is not FinalizeStatus.QUARANTINED:
            continue
        recording = change.after.recordings.get(after.recording_id)
        unsupported = any(isinstance(each, Unsupported) for each in _told(change, recording))
        if after.schedule.attempts < MAX_ATTEMPTS and not unsupported:
            yield f"{named(after.id)} after {after.schedule.attempts} attempts"


def more_attempts_than_allowed(change: Change) -> Iterator[str]:
    for entry in change.after.entries.values():
        if entry.schedule.attempts > MAX_ATTEMPTS:
            yield f"{named(entry.id)} has {entry.schedule.attempts}"


def schedule_off_the_backoff(change: Change) -> Iterator[str]:
    for step in change.entries:
        before, after = step.before, step.after
        if before is None or after is None or after.schedule.attempts != before.schedule.attempts + 1:
            continue
        longest = BACKOFF.delay(after.schedule.attempts, 0.0)
        delay = after.schedule.next_attempt_at - after.updated_at
        if not longest * (1 - BACKOFF.jitter) <= delay <= longest:
            yield f"{named(after.id)} waits for {delay} after attempt {after.schedule.attempts}"


def last_error_says_too_much(change: Change) -> Iterator[str]:
    for entry in change.after.entries.values():
        error = entry.schedule.last_error
        if error is not None and not LAST_ERROR.fullmatch(error):
            yield f"{named(entry.id)}: {error!r}"


_ENTRIES: Final = frozenset({"entries"})
_RECORDINGS: Final = frozenset({"recordings"})
_ROWS: Final = _ENTRIES | _RECORDINGS | {"outbox", "notices"}

RECORDING_INVARIANTS: Final = (
    Invariant(
        2, "an available recording is announced in its own commit", available_without_its_message, _ROWS
    ),
    Invariant(2, "what is announced is available", message_without_its_recording, _ROWS),
    Invariant(2, "clients are told once, and the truth", clients_told_wrongly, _ROWS),
    Invariant(3, "nothing leaves Done, Available or Failed", left_a_final_state, _ENTRIES | _RECORDINGS),
    Invariant(3, "every write shows in the version", version_stood_still, _ENTRIES | _RECORDINGS),
    Invariant(4, "only what storage says is not there is lost", declared_lost_unasked, _RECORDINGS),
    Invariant(4, "only what storage has shown is adopted", adopted_something_else, _RECORDINGS),
    Invariant(5, "an attempt is counted for a reason", attempt_counted_for_no_reason, _ENTRIES),
    Invariant(5, "a recording is quarantined for a reason", quarantined_for_no_reason, _ENTRIES),
    Invariant(5, "attempts stay within their bound", more_attempts_than_allowed, _ENTRIES),
    Invariant(5, "the schedule follows the backoff", schedule_off_the_backoff, _ENTRIES),
    Invariant(6, "a row is tried once per cycle", attempt_counted_twice_in_a_cycle, _ENTRIES),
    Invariant(10, "a last error is a class and a code", last_error_says_too_much, _ENTRIES),
)
