"""One provisioning attempt as a pure decision: what was seen goes in, what to write comes out."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from attrs import frozen

from .chat import (
    ACTIVE,
    DEAL_KIND,
    Chat,
    ChatCreated,
    ChatEvent,
    Participant,
    feed_entry,
    reconcile,
)
from .deal_chat_provision import (
    DealChatProvision,
    DealChatStatusChanged,
    ProvisioningRules,
)
from .errors import AttemptError, GuardViolation

TITLE_MAX_LENGTH: Final = 256


@frozen(kw_only=True)
class ProvisionSnapshot:
    """What one attempt decides on: the intent, the deal's chat if there is one, and everybody known to it."""

    provision: DealChatProvision
    chat: Chat | None = None
    participants: tuple[Participant, ...] = ()


@frozen(kw_only=True)
class NewChat:
    """A chat to be created, with the one feed entry that its creation causes."""

    chat: Chat
    feed_entry: ChatEvent


@frozen(kw_only=True)
class Provisioned:
    """The attempt succeeds: ``new_chat`` (unless the deal has one) and ``participants`` are written with it."""

    provision: DealChatProvision
    chat_id: UUID
    new_chat: NewChat | None
    participants: tuple[Participant, ...]
    event: DealChatStatusChanged


@frozen(kw_only=True)
class Refused:
    """The attempt counts and fails; ``event`` is set when it was the last one allowed (poison)."""

    provision: DealChatProvision
    error: AttemptError
    event: DealChatStatusChanged | None


Verdict = Provisioned | Refused


def decide(
    seen: ProvisionSnapshot,
    *,
    now: datetime,
    spread: float,
    rules: ProvisioningRules,
    new_id: Callable[[], UUID],
) -> Verdict:
    """Decide one attempt made at ``now``.

    ``spread`` in [0, 1) shortens the backoff; ``new_id`` supplies ids for what is created. Raises
    `IllegalTransition` for a provision that is ``Ready`` or whose attempts are used up.
    """
    try:
        _ensure_provisionable(seen)
    except GuardViolation as violation:
        return refuse(
            seen.provision,
            AttemptError("ProvisionGuard", violation.code),
            now=now,
            spread=spread,
            rules=rules,
        )
    if seen.chat is None:
        new_chat = _new_chat(seen.provision, now=now, new_id=new_id)
        chat_id = new_chat.chat.id
    else:
        new_chat, chat_id = None, seen.chat.id
    provision, event = seen.provision.completed(
        chat_id=chat_id,
        now=now,
        delay=_delay(seen.provision, spread, rules),
        max_attempts=rules.max_attempts,
    )
    return Provisioned(
        provision=provision,
        chat_id=chat_id,
        new_chat=new_chat,
        participants=reconcile(chat_id, seen.participants, seen.provision.members, now=now, new_id=new_id),
        event=event,
    )


def refuse(
    provision: DealChatProvision,
    error: AttemptError,
    *,
    now: datetime,
    spread: float,
    rules: ProvisioningRules,
) -> Refused:
    """Count one attempt made at ``now`` as failed by ``error``, whatever refused it. Raises like `decide`."""
    after, event = provision.refused(
        error,
        now=now,
        delay=_delay(provision, spread, rules),
        max_attempts=rules.max_attempts,
    )
    return Refused(provision=after, error=error, event=event)


def _delay(provision: DealChatProvision, spread: float, rules: ProvisioningRules) -> timedelta:
    return rules.backoff.delay(provision.schedule.attempts + 1, spread)


def _ensure_provisionable(seen: ProvisionSnapshot) -> None:
    members = seen.provision.members
    if not members:
        raise GuardViolation("NO_MEMBERS")
    if len({member.user_id for member in members}) != len(members):
        raise GuardViolation("DUPLICATE_MEMBER")
    title = seen.provision.title
    if not title.strip():
        raise GuardViolation("EMPTY_TITLE")
    if len(title) > TITLE_MAX_LENGTH:
        raise GuardViolation("TITLE_TOO_LONG")
    if seen.chat is not None:
        seen.chat.ensure_usable_for_deal()


def _new_chat(provision: DealChatProvision, *, now: datetime, new_id: Callable[[], UUID]) -> NewChat:
    chat = Chat(
        id=new_id(),
        kind=DEAL_KIND,
        status=ACTIVE,
        deal_id=provision.deal_id,
        title=provision.title,
        project_id=provision.project_id,
        deal_tenant_id=provision.deal_tenant_id,
        created_at=now,
        updated_at=now,
        version=0,
    )
    created = ChatCreated(chat_id=chat.id, deal_id=provision.deal_id, occurred_at=now)
    return NewChat(chat=chat, feed_entry=feed_entry(created, id=new_id()))
