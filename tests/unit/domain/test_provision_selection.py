"""Which provisions a cycle takes: each line of the selection rule, at the microsecond where it turns."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from messenger_jobs.domain.backoff import BackoffPolicy
from messenger_jobs.domain.deal_chat_provision import DealChatProvision, ProvisioningRules, ProvisionStatus
from messenger_jobs.domain.errors import InvariantViolation

from tests.support.builders import (
    MICROSECOND,
    NOW,
    RULES,
    a_failed_provision,
    a_provision,
    a_ready_provision,
)

STUCK = NOW - RULES.stuck_after
LONG_AGO = NOW - timedelta(days=400)


def stuck_provision(
    updated_at: datetime, *, attempts: int = 0, next_attempt_at: datetime = NOW
) -> DealChatProvision:
    return a_provision(updated_at=updated_at, attempts=attempts, next_attempt_at=next_attempt_at)


@pytest.mark.parametrize(
    ("provision", "due"),
    [
        pytest.param(a_failed_provision(next_attempt_at=LONG_AGO), True, id="failed, long due"),
        pytest.param(a_failed_provision(next_attempt_at=NOW), True, id="failed, due this microsecond"),
        pytest.param(
            a_failed_provision(next_attempt_at=NOW + MICROSECOND), False, id="failed, due the next one"
        ),
        pytest.param(a_failed_provision(attempts=0), True, id="failed, requeued"),
        pytest.param(a_failed_provision(attempts=7), True, id="failed, one attempt left"),
        pytest.param(a_failed_provision(attempts=8), False, id="failed, poison"),
        pytest.param(a_failed_provision(attempts=9), False, id="failed, over a limit that was lowered"),
        pytest.param(stuck_provision(LONG_AGO), True, id="provisioning, long stuck"),
        pytest.param(stuck_provision(STUCK), True, id="provisioning, stuck this microsecond"),
        pytest.param(stuck_provision(STUCK + MICROSECOND), False, id="provisioning, stuck the next one"),
        pytest.param(stuck_provision(NOW), False, id="provisioning, just begun"),
        pytest.param(
            stuck_provision(NOW + timedelta(hours=1)), False, id="provisioning, a clock ahead of ours"
        ),
        pytest.param(
            stuck_provision(STUCK, next_attempt_at=NOW + MICROSECOND),
            False,
            id="provisioning, stuck, not yet due",
        ),
        pytest.param(stuck_provision(STUCK, attempts=7), True, id="provisioning, one attempt left"),
        pytest.param(stuck_provision(STUCK, attempts=8), False, id="provisioning, no attempt left"),
        pytest.param(a_ready_provision(), False, id="ready"),
    ],
)
def test_cycle_takes_what_failed_or_got_stuck_and_is_due(provision: DealChatProvision, due: bool) -> None:
    assert provision.is_due(as_of=NOW, rules=RULES) is due


def test_failed_provision_does_not_wait_for_being_stuck() -> None:
    just_failed = a_provision(status=ProvisionStatus.FAILED, attempts=1, next_attempt_at=NOW, updated_at=NOW)

    assert just_failed.is_due(as_of=NOW, rules=RULES)


def test_requeued_poison_is_due_at_once() -> None:
    assert a_failed_provision(attempts=8).requeued(now=NOW).is_due(as_of=NOW, rules=RULES)


def test_stuck_delay_of_zero_takes_every_open_row_at_its_time() -> None:
    assert a_provision(updated_at=NOW).is_due(as_of=NOW, rules=ProvisioningRules(stuck_after=timedelta(0)))


def test_stuck_delay_longer_than_history_takes_nothing() -> None:
    rules = ProvisioningRules(stuck_after=timedelta.max)

    assert not a_provision(updated_at=datetime(1970, 1, 1, tzinfo=UTC)).is_due(as_of=NOW, rules=rules)


def test_rules_default_to_eight_attempts_and_five_minutes() -> None:
    assert ProvisioningRules() == ProvisioningRules(
        max_attempts=8, stuck_after=timedelta(minutes=5), backoff=BackoffPolicy()
    )


def test_rules_with_one_attempt_exist() -> None:
    assert ProvisioningRules(max_attempts=1).max_attempts == 1


def test_rules_without_attempts_are_refused() -> None:
    with pytest.raises(InvariantViolation, match="max_attempts"):
        ProvisioningRules(max_attempts=0)


def test_rules_with_a_negative_delay_are_refused() -> None:
    with pytest.raises(InvariantViolation, match="stuck_after"):
        ProvisioningRules(stuck_after=-MICROSECOND)
