"""The deal's chat, its participants, and how a wanted membership is reconciled with the present one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Final
from uuid import UUID

from attrs import evolve, frozen

from .errors import GuardViolation, IllegalTransition, InvariantViolation

DEAL_KIND: Final = "Deal"
ACTIVE: Final = "Active"
SYSTEM_ACTOR: Final = "System"
DEAL_CHAT_PROVISIONED: Final = "DealChatProvisioned"
ROLE_MAX_LENGTH: Final = 32


@frozen(kw_only=True)
class Chat:
    """A chat as far as provisioning knows it; ``kind`` and ``status`` are vocabularies owned elsewhere."""

    id: UUID
    kind: str
    status: str
    deal_id: UUID | None
    title: str
    project_id: UUID | None
    deal_tenant_id: UUID | None
    created_at: datetime
    updated_at: datetime
    version: int

    def ensure_usable_for_deal(self) -> None:
        """Raise `GuardViolation` unless this is an active chat of kind ``Deal``."""
        if self.kind != DEAL_KIND:
            raise GuardViolation("CHAT_NOT_OF_KIND_DEAL")
        if self.status != ACTIVE:
            raise GuardViolation("CHAT_NOT_ACTIVE")


@frozen(kw_only=True)
class Member:
    """Somebody who belongs in the deal's chat, as the deal's creation named them.

    ``role`` is an open vocabulary of 1 to 32 characters, passed on as given; raises `InvariantViolation` otherwise.
    """

    user_id: UUID
    role: str

    def __attrs_post_init__(self) -> None:
        if not 1 <= len(self.role) <= ROLE_MAX_LENGTH:
            raise InvariantViolation(f"a role has 1 to {ROLE_MAX_LENGTH} characters")


@frozen(kw_only=True)
class Participant:
    """Somebody who is, or was (``left_at`` set), in a chat."""

    id: UUID
    chat_id: UUID
    user_id: UUID
    role: str
    joined_at: datetime
    left_at: datetime | None = None

    def rejoined(self, *, role: str) -> Participant:
        """Come back after leaving, with the role now wanted. Raises `IllegalTransition` when still present."""
        if self.left_at is None:
            raise IllegalTransition("a present participant cannot rejoin")
        return evolve(self, role=role, left_at=None)


@frozen(kw_only=True)
class ChatCreated:
    """A deal's chat came into being."""

    chat_id: UUID
    deal_id: UUID
    occurred_at: datetime


@frozen(kw_only=True)
class ChatEvent:
    """One entry of a chat's feed (``messenger.chat_events``)."""

    id: UUID
    chat_id: UUID
    type: str
    actor: str
    occurred_at: datetime
    data: Mapping[str, str]


def feed_entry(created: ChatCreated, *, id: UUID) -> ChatEvent:
    """The feed's entry about a new deal chat: one per chat, of type ``DealChatProvisioned`` (INV-CE-2)."""
    return ChatEvent(
        id=id,
        chat_id=created.chat_id,
        type=DEAL_CHAT_PROVISIONED,
        actor=SYSTEM_ACTOR,
        occurred_at=created.occurred_at,
        data={"dealId": str(created.deal_id)},
    )


def reconcile(
    chat_id: UUID,
    present: Iterable[Participant],
    wanted: Iterable[Member],
    *,
    now: datetime,
    new_id: Callable[[], UUID],
) -> tuple[Participant, ...]:
    """The participants to write so that everybody wanted is present: additive and idempotent (INV-PART-1).

    Missing members join at ``now``, those who left are re-activated with the wanted role, present ones stay as
    they are. Nobody is ever removed: people who joined by other ways are none of this function's business.
    """
    known = {participant.user_id: participant for participant in present}
    changed: list[Participant] = []
    for member in wanted:
        participant = known.get(member.user_id)
        if participant is None:
            changed.append(
                Participant(
                    id=new_id(),
                    chat_id=chat_id,
                    user_id=member.user_id,
                    role=member.role,
                    joined_at=now,
                )
            )
        elif participant.left_at is not None:
            changed.append(participant.rejoined(role=member.role))
    return tuple(changed)
