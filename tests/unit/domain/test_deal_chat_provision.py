"""The life of a provision: every step there is, and every step there is not."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import pytest
from attrs import evolve
from attrs.exceptions import FrozenInstanceError
from messenger_jobs.domain.deal_chat_provision import (
    DealChatProvision,
    DealChatStatusChanged,
    ProvisionStatus,
)
from messenger_jobs.domain.errors import AttemptError, IllegalTransition, InvariantViolation
from messenger_jobs.domain.retry_schedule import RetrySchedule

from tests.support.builders import (
    CHAT_ID,
    DEAL_ID,
    NOW,
    a_failed_provision,
    a_provision,
    a_ready_provision,
)

DELAY = timedelta(seconds=90)
REFUSED = AttemptError("ProvisionGuard", "NO_MEMBERS")
OPEN = [
    pytest.param(a_provision(), id="provisioning"),
    pytest.param(a_failed_provision(attempts=3), id="failed"),
]


def complete(provision: DealChatProvision) -> tuple[DealChatProvision, DealChatStatusChanged]:
    return provision.completed(chat_id=CHAT_ID, now=NOW, delay=DELAY, max_attempts=8)


def refuse(provision: DealChatProvision) -> tuple[DealChatProvision, DealChatStatusChanged | None]:
    return provision.refused(REFUSED, now=NOW, delay=DELAY, max_attempts=8)


@pytest.mark.parametrize("provision", OPEN)
def test_success_counts_the_attempt_and_is_told(provision: DealChatProvision) -> None:
    ready, event = complete(provision)

    assert ready == evolve(
        provision,
        status=ProvisionStatus.READY,
        chat_id=CHAT_ID,
        schedule=RetrySchedule(
            attempts=provision.schedule.attempts + 1, next_attempt_at=NOW + DELAY, last_error=None
        ),
        updated_at=NOW,
        version=provision.version + 1,
    )
    assert event == DealChatStatusChanged(
        deal_id=DEAL_ID, chat_id=CHAT_ID, status=ProvisionStatus.READY, occurred_at=NOW
    )


@pytest.mark.parametrize("provision", OPEN)
def test_refusal_counts_the_attempt_and_is_told_to_nobody_while_another_one_follows(
    provision: DealChatProvision,
) -> None:
    failed, event = refuse(provision)

    assert failed == evolve(
        provision,
        status=ProvisionStatus.FAILED,
        schedule=RetrySchedule(
            attempts=provision.schedule.attempts + 1,
            next_attempt_at=NOW + DELAY,
            last_error="ProvisionGuard:NO_MEMBERS",
        ),
        updated_at=NOW,
        version=provision.version + 1,
    )
    assert event is None


def test_only_the_last_allowed_refusal_is_told() -> None:
    provision = a_provision()
    told: list[int] = []
    while provision.schedule.attempts < 8:
        provision, event = refuse(provision)
        if event is not None:
            told.append(provision.schedule.attempts)

    assert told == [8]


@pytest.mark.parametrize("chat_id", [None, CHAT_ID], ids=["without a chat", "with a chat"])
def test_last_refusal_tells_which_deal_failed_and_the_chat_if_one_is_known(chat_id: UUID | None) -> None:
    failed, event = refuse(evolve(a_failed_provision(attempts=7), chat_id=chat_id))

    assert failed.chat_id == chat_id
    assert event == DealChatStatusChanged(
        deal_id=DEAL_ID, chat_id=chat_id, status=ProvisionStatus.FAILED, occurred_at=NOW
    )


def test_single_attempt_that_is_refused_is_the_last() -> None:
    provision, event = a_provision().refused(REFUSED, now=NOW, delay=DELAY, max_attempts=1)

    assert provision.schedule.attempts == 1
    assert event is not None


def test_last_allowed_attempt_may_still_succeed() -> None:
    ready, event = complete(a_failed_provision(attempts=7))

    assert ready.schedule.attempts == 8
    assert event.status is ProvisionStatus.READY


@pytest.mark.parametrize("attempts", [8, 9])
@pytest.mark.parametrize("attempt", [complete, refuse])
def test_no_attempt_is_made_beyond_the_last(
    attempt: Callable[[DealChatProvision], object], attempts: int
) -> None:
    with pytest.raises(IllegalTransition, match="operator"):
        attempt(a_failed_provision(attempts=attempts))


@pytest.mark.parametrize("provision", [*OPEN, pytest.param(a_failed_provision(attempts=8), id="poison")])
def test_requeue_starts_over_and_leaves_status_and_progress_alone(provision: DealChatProvision) -> None:
    requeued = provision.requeued(now=NOW)

    assert requeued == evolve(
        provision,
        schedule=RetrySchedule(attempts=0, next_attempt_at=NOW, last_error=provision.schedule.last_error),
        version=provision.version + 1,
    )


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(complete, id="completed"),
        pytest.param(refuse, id="refused"),
        pytest.param(lambda provision: provision.requeued(now=NOW), id="requeued"),
    ],
)
@pytest.mark.parametrize("attempts", [0, 1, 8])
def test_no_step_leads_out_of_ready(step: Callable[[DealChatProvision], object], attempts: int) -> None:
    with pytest.raises(IllegalTransition, match="stays ready"):
        step(a_ready_provision(attempts=attempts))


def test_ready_provision_without_a_chat_cannot_exist() -> None:
    with pytest.raises(InvariantViolation, match="has a chat"):
        a_provision(status=ProvisionStatus.READY, chat_id=None)


@pytest.mark.parametrize("status", [ProvisionStatus.PROVISIONING, ProvisionStatus.FAILED])
@pytest.mark.parametrize("chat_id", [None, CHAT_ID])
def test_open_provision_may_do_without_a_chat(status: ProvisionStatus, chat_id: UUID | None) -> None:
    assert a_provision(status=status, chat_id=chat_id).chat_id == chat_id


def test_stored_words_of_the_statuses() -> None:
    assert [status.value for status in ProvisionStatus] == ["Provisioning", "Ready", "Failed"]


def test_step_leaves_the_value_it_started_from_as_it_was() -> None:
    provision = a_failed_provision(attempts=3)

    complete(provision)
    refuse(provision)
    provision.requeued(now=NOW)

    assert provision == a_failed_provision(attempts=3)
    with pytest.raises(FrozenInstanceError):
        provision.version = 9  # type: ignore[misc]  # what is tested
