"""Why a row is taken or not: the reason that decides, of all there may be."""

from __future__ import annotations

from datetime import timedelta

import pytest
from messenger_jobs.application.explain_finalization import explain_finalization
from messenger_jobs.application.explain_provision import explain_provision
from messenger_jobs.application.explanation import NextStep, Reason
from messenger_jobs.application.ports.row_holder import RowHolder
from messenger_jobs.application.row_states import finalization_state, provision_state
from messenger_jobs.domain.deal_chat_provision import DealChatProvision

from tests.support.builders import MICROSECOND, NOW, RULES, a_provision
from tests.support.explained_rows import MINUTE, PROVISIONS, RECORDINGS, Pair
from tests.support.recordings import FINALIZATION_RULES, SLA, a_recording, an_entry, seen

HOLDER = RowHolder(backend=4711, name="messenger-api", since=NOW)


@pytest.mark.parametrize(("provision", "reason"), PROVISIONS.values(), ids=PROVISIONS)
@pytest.mark.parametrize("holder", [None, HOLDER], ids=["free", "held"])
def test_provision_is_explained_by_the_rule_that_selects_it(
    provision: DealChatProvision, reason: Reason, holder: RowHolder | None
) -> None:
    explanation = explain_provision(provision, as_of=NOW, rules=RULES, holder=holder)

    assert explanation.reason is (Reason.LOCKED if holder and reason is Reason.DUE else reason)
    assert explanation.holder == holder
    assert explanation.taken_now is (reason is Reason.DUE and holder is None)
    is_due = explanation.taken_from is not None and explanation.taken_from <= NOW
    assert is_due is (provision_state(provision, as_of=NOW, rules=RULES) == "due")
    assert explanation.next_step is (None if explanation.taken_from is None else NextStep.ATTEMPT)


@pytest.mark.parametrize(("pair", "reason", "step"), RECORDINGS.values(), ids=RECORDINGS)
@pytest.mark.parametrize("holder", [None, HOLDER], ids=["free", "held"])
def test_finalization_is_explained_by_what_its_turn_begins_with(
    pair: Pair, reason: Reason, step: NextStep | None, holder: RowHolder | None
) -> None:
    recording, entry = pair

    explanation = explain_finalization(
        seen(recording, entry), as_of=NOW, rules=FINALIZATION_RULES, holder=holder
    )

    assert explanation.reason is (Reason.LOCKED if holder and reason is Reason.DUE else reason)
    assert (explanation.next_step, explanation.holder) == (step, holder)
    assert explanation.recording_holder is None
    assert explanation.taken_now is (reason is Reason.DUE and holder is None)
    is_due = explanation.taken_from is not None and explanation.taken_from <= NOW
    assert is_due is (finalization_state(entry, as_of=NOW) == "due")


def test_deal_in_flight_is_taken_once_it_has_been_stuck_for_long_enough() -> None:
    young = a_provision(updated_at=NOW - MINUTE, next_attempt_at=NOW - MINUTE)

    explanation = explain_provision(young, as_of=NOW, rules=RULES, holder=None)

    assert explanation.taken_from == NOW - MINUTE + RULES.stuck_after
    assert explanation.reason is Reason.FIRST_ATTEMPT_EXPECTED


@pytest.mark.parametrize(
    ("ended_ago", "waits_for"),
    [(SLA, None), (SLA - MICROSECOND, NOW + MICROSECOND), (timedelta(0), NOW + SLA)],
    ids=["over", "a microsecond left", "just ended"],
)
def test_deadline_of_an_upload_is_told_while_it_lies_ahead(ended_ago: timedelta, waits_for: object) -> None:
    recording = a_recording(session_ended_at=NOW - ended_ago)

    explanation = explain_finalization(
        seen(recording, an_entry()), as_of=NOW, rules=FINALIZATION_RULES, holder=None
    )

    assert explanation.waits_for == waits_for
    assert explanation.next_step is (NextStep.RECONCILE if waits_for is None else NextStep.DEFER)
