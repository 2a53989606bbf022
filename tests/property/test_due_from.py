"""When a provision becomes due, said ahead, is when the selection rule begins to hold."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from messenger_jobs.domain.deal_chat_provision import DealChatProvision, ProvisioningRules, ProvisionStatus

from tests.property.strategies import MICROSECOND, near_now, rules
from tests.support.builders import CHAT_ID, NOW, a_provision

END_OF_TIME = datetime.max.replace(tzinfo=UTC)

provisions = st.builds(
    lambda status, **changes: a_provision(
        status=status, chat_id=CHAT_ID if status is ProvisionStatus.READY else None, **changes
    ),
    st.sampled_from(ProvisionStatus),
    attempts=st.integers(min_value=0, max_value=11),
    next_attempt_at=near_now,
    updated_at=near_now,
)


@given(provision=provisions, rules=rules)
def test_row_is_due_from_then_on_and_not_before(
    provision: DealChatProvision, rules: ProvisioningRules
) -> None:
    due_from = provision.due_from(rules=rules)
    if due_from is None:
        assert not provision.is_due(as_of=END_OF_TIME, rules=rules)
        return
    assert provision.is_due(as_of=due_from, rules=rules)
    assert provision.is_due(as_of=END_OF_TIME, rules=rules)
    assert not provision.is_due(as_of=due_from - MICROSECOND, rules=rules)


def test_delay_that_leaves_the_calendar_is_never_over() -> None:
    patient = ProvisioningRules(stuck_after=timedelta.max)
    stuck = evolve(a_provision(), updated_at=NOW)
    assert stuck.due_from(rules=patient) is None
    assert not stuck.is_due(as_of=END_OF_TIME, rules=patient)
