"""Aggregates for tests: valid as they come, with only what matters to the test spelled out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Final
from uuid import UUID

from messenger_jobs.domain.backoff import BackoffPolicy
from messenger_jobs.domain.chat import ACTIVE, DEAL_KIND, Chat, Member, Participant
from messenger_jobs.domain.deal_chat_provision import DealChatProvision, ProvisioningRules, ProvisionStatus
from messenger_jobs.domain.retry_schedule import RetrySchedule

NOW: Final = datetime(2026, 3, 14, 9, 26, 53, 589793, tzinfo=UTC)
"""When tests take place, unless they say otherwise; with microseconds, since the database keeps them."""

MICROSECOND: Final = timedelta(microseconds=1)

RULES: Final = ProvisioningRules(
    max_attempts=8,
    stuck_after=timedelta(minutes=5),
    backoff=BackoffPolicy(base=timedelta(minutes=1), factor=2.0, cap=timedelta(minutes=15), jitter=0.2),
)


def some_id(number: int) -> UUID:
    """The id with this number: the same one everywhere."""
    return UUID(int=number)


def ids_from(first: int = 1_000_000) -> Callable[[], UUID]:
    """A source of new ids, in ascending order."""
    numbers = count(first)
    return lambda: some_id(next(numbers))


DEAL_ID: Final = some_id(1)
PROVISION_ID: Final = some_id(2)
CHAT_ID: Final = some_id(3)
PROJECT_ID: Final = some_id(4)
TENANT_ID: Final = some_id(5)
BUYER: Final = some_id(11)
SELLER: Final = some_id(12)


def a_member(user_id: UUID = BUYER, role: str = "Buyer") -> Member:
    """Somebody who belongs in the chat."""
    return Member(user_id=user_id, role=role)


def a_participant(
    user_id: UUID = BUYER,
    role: str = "Buyer",
    *,
    id: UUID | None = None,
    chat_id: UUID = CHAT_ID,
    joined_at: datetime = NOW - timedelta(days=1),
    left_at: datetime | None = None,
) -> Participant:
    """Somebody who joined the chat yesterday and is still there."""
    return Participant(
        id=id or some_id(100 + user_id.int),
        chat_id=chat_id,
        user_id=user_id,
        role=role,
        joined_at=joined_at,
        left_at=left_at,
    )


def a_chat(
    *,
    id: UUID = CHAT_ID,
    kind: str = DEAL_KIND,
    status: str = ACTIVE,
    deal_id: UUID | None = DEAL_ID,
    title: str = "Flat 12",
    version: int = 0,
) -> Chat:
    """The deal's chat, active, created yesterday."""
    return Chat(
        id=id,
        kind=kind,
        status=status,
        deal_id=deal_id,
        title=title,
        project_id=PROJECT_ID,
        deal_tenant_id=TENANT_ID,
        created_at=NOW - timedelta(days=1),
        updated_at=NOW - timedelta(days=1),
        version=version,
    )


def a_provision(
    *,
    id: UUID = PROVISION_ID,
    deal_id: UUID = DEAL_ID,
    chat_id: UUID | None = None,
    title: str = "Flat 12",
    status: ProvisionStatus = ProvisionStatus.PROVISIONING,
    attempts: int = 0,
    next_attempt_at: datetime = NOW,
    last_error: str | None = None,
    members: Iterable[Member] = (Member(user_id=BUYER, role="Buyer"), Member(user_id=SELLER, role="Seller")),
    updated_at: datetime = NOW - timedelta(minutes=5),
    version: int = 0,
) -> DealChatProvision:
    """A provision that has been stuck for five minutes and was never tried: due now."""
    return DealChatProvision(
        id=id,
        deal_id=deal_id,
        chat_id=chat_id,
        title=title,
        project_id=PROJECT_ID,
        deal_tenant_id=TENANT_ID,
        status=status,
        schedule=RetrySchedule(attempts=attempts, next_attempt_at=next_attempt_at, last_error=last_error),
        members=tuple(members),
        created_at=NOW - timedelta(days=1),
        updated_at=updated_at,
        version=version,
    )


def a_failed_provision(
    *, attempts: int = 1, next_attempt_at: datetime = NOW, version: int = 1
) -> DealChatProvision:
    """A provision whose attempts were refused so far."""
    return a_provision(
        status=ProvisionStatus.FAILED,
        attempts=attempts,
        next_attempt_at=next_attempt_at,
        last_error="ProvisionGuard:NO_MEMBERS",
        version=version,
    )


def a_ready_provision(*, attempts: int = 1, version: int = 1) -> DealChatProvision:
    """A provision that is finished."""
    return a_provision(status=ProvisionStatus.READY, chat_id=CHAT_ID, attempts=attempts, version=version)
