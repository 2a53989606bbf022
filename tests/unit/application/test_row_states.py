"""Where a row stands, and what operators see of it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from messenger_jobs.application.ports.row_summary import RowState, RowSummary
from messenger_jobs.application.row_states import (
    finalization_state,
    finalization_summary,
    provision_state,
    provision_summary,
)
from messenger_jobs.domain.deal_chat_provision import DealChatProvision, ProvisionStatus
from messenger_jobs.domain.recording_finalize import FinalizeStatus, RecordingFinalize

from tests.support.builders import (
    CHAT_ID,
    DEAL_ID,
    MICROSECOND,
    NOW,
    PROVISION_ID,
    RULES,
    a_failed_provision,
    a_provision,
    a_ready_provision,
)
from tests.support.recordings import ENDED_AT, ENTRY_ID, RECORDING_ID, SESSION_ID, an_entry


@pytest.mark.parametrize(
    ("provision", "state"),
    [
        (a_failed_provision(), RowState.DUE),
        (a_failed_provision(next_attempt_at=NOW + MICROSECOND), RowState.WAITING),
        (a_failed_provision(attempts=RULES.max_attempts), RowState.POISON),
        (a_ready_provision(attempts=RULES.max_attempts), RowState.FINISHED),
    ],
    ids=lambda value: value.value if isinstance(value, RowState) else "",
)
def test_provision_is_in_one_state(provision: DealChatProvision, state: RowState) -> None:
    assert provision_state(provision, as_of=NOW, rules=RULES) is state


@pytest.mark.parametrize(
    ("entry", "state"),
    [
        (an_entry(), RowState.DUE),
        (an_entry(next_attempt_at=NOW + MICROSECOND), RowState.WAITING),
        (an_entry(status=FinalizeStatus.QUARANTINED), RowState.POISON),
        (an_entry(status=FinalizeStatus.DONE), RowState.FINISHED),
    ],
    ids=lambda value: value.value if isinstance(value, RowState) else "",
)
def test_finalization_is_in_one_state(entry: RecordingFinalize, state: RowState) -> None:
    assert finalization_state(entry, as_of=NOW) is state


def test_provision_is_summed_up_without_what_only_its_deal_may_know() -> None:
    later = NOW + timedelta(minutes=1)
    provision = a_provision(
        status=ProvisionStatus.FAILED,
        chat_id=CHAT_ID,
        attempts=3,
        next_attempt_at=later,
        last_error="ProvisionGuard:NO_MEMBERS",
    )

    assert provision_summary(provision) == RowSummary(
        id=PROVISION_ID,
        subject={"deal_id": DEAL_ID, "chat_id": CHAT_ID},
        status="Failed",
        attempts=3,
        next_attempt_at=later,
        last_error="ProvisionGuard:NO_MEMBERS",
        created_at=NOW - timedelta(days=1),
        updated_at=NOW - timedelta(minutes=5),
    )


def test_finalization_is_summed_up_alone() -> None:
    entry = an_entry(attempts=3, last_error="Storage:TIMED_OUT", updated_at=NOW - timedelta(minutes=1))

    assert finalization_summary(entry) == RowSummary(
        id=ENTRY_ID,
        subject={"recording_id": RECORDING_ID, "session_id": SESSION_ID},
        status="Pending",
        attempts=3,
        next_attempt_at=NOW,
        last_error="Storage:TIMED_OUT",
        created_at=ENDED_AT,
        updated_at=NOW - timedelta(minutes=1),
    )
