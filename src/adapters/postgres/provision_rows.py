"""Between rows and the domain's provisions, chats and participants."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Final

from ...application.ports.outbox import OutboxMessage
from ...domain.chat import Chat, Member, Participant
from ...domain.deal_chat_provision import DealChatProvision, ProvisioningRules, ProvisionStatus
from ...domain.provisioning import NewChat, Provisioned, ProvisionSnapshot, Refused, Verdict
from ...domain.retry_schedule import RetrySchedule
from .fetching import Row

BEGINNING_OF_TIME: Final = datetime.min.replace(tzinfo=UTC)


def due_parameters(as_of: datetime, rules: ProvisioningRules) -> dict[str, object]:
    """What the selection rule depends on."""
    try:
        stuck_since = as_of - rules.stuck_after
    except OverflowError:
        stuck_since = BEGINNING_OF_TIME
    return {"as_of": as_of, "max_attempts": rules.max_attempts, "stuck_since": stuck_since}


def snapshot_from(row: Row, context: Row) -> ProvisionSnapshot:
    """All that an attempt decides on, from ``PROVISION_COLUMNS`` and the row of ``CONTEXT`` that goes with them."""
    return ProvisionSnapshot(
        provision=_provision(row, _members(context)), chat=_chat(context), participants=_participants(context)
    )


def refreshed(seen: ProvisionSnapshot, context: Row) -> ProvisionSnapshot:
    """The same provision with the chat and the participants of a later row of ``CONTEXT``."""
    return ProvisionSnapshot(
        provision=seen.provision, chat=_chat(context), participants=_participants(context)
    )


def provision_from(row: Row, context: Row) -> DealChatProvision:
    """The provision alone."""
    return _provision(row, _members(context))


def intend_parameters(provision: DealChatProvision) -> dict[str, object]:
    """Everything that ``INTEND`` writes."""
    schedule = provision.schedule
    return {
        "id": provision.id,
        "deal_id": provision.deal_id,
        "title": provision.title,
        "project_id": provision.project_id,
        "deal_tenant_id": provision.deal_tenant_id,
        "status": provision.status.value,
        "attempts": schedule.attempts,
        "next_attempt_at": schedule.next_attempt_at,
        "created_at": provision.created_at,
        "updated_at": provision.updated_at,
        "version": provision.version,
        "members": json.dumps(
            [{"user_id": str(member.user_id), "role": member.role} for member in provision.members]
        ),
    }


def settle_parameters(
    seen: ProvisionSnapshot, verdict: Verdict, message: OutboxMessage | None
) -> dict[str, object]:
    """Everything that ``SETTLE`` writes, and what it is guarded by."""
    provision = verdict.provision
    schedule = provision.schedule
    return {
        "id": provision.id,
        "version": provision.version,
        "status": provision.status.value,
        "provision_chat_id": provision.chat_id,
        "attempts": schedule.attempts,
        "next_attempt_at": schedule.next_attempt_at,
        "last_error": schedule.last_error,
        "updated_at": provision.updated_at,
        **_seen_chat_parameters(seen.chat),
        **_participant_parameters(verdict),
        **_new_chat_parameters(verdict.new_chat if isinstance(verdict, Provisioned) else None),
        **_message_parameters(message),
    }


def _seen_chat_parameters(chat: Chat | None) -> dict[str, object]:
    if chat is None:
        return _NO_CHAT_SEEN
    return {
        "seen_chat_id": chat.id,
        "seen_chat_version": chat.version,
        "seen_chat_kind": chat.kind,
        "seen_chat_status": chat.status,
    }


def _participant_parameters(verdict: Verdict) -> dict[str, object]:
    match verdict:
        case Provisioned(chat_id=chat_id, participants=participants):
            return {"chat_id": chat_id, "participants": json.dumps([*map(_joining, participants)])}
        case Refused():
            return {"chat_id": None, "participants": "[]"}


def _joining(participant: Participant) -> dict[str, str]:
    return {
        "id": str(participant.id),
        "user_id": str(participant.user_id),
        "role": participant.role,
        "joined_at": participant.joined_at.isoformat(),
    }


def _new_chat_parameters(new_chat: NewChat | None) -> dict[str, object]:
    if new_chat is None:
        return _NO_NEW_CHAT
    chat, entry = new_chat.chat, new_chat.feed_entry
    return {
        "creates_chat": True,
        "chat_kind": chat.kind,
        "chat_status": chat.status,
        "deal_id": chat.deal_id,
        "chat_title": chat.title,
        "project_id": chat.project_id,
        "deal_tenant_id": chat.deal_tenant_id,
        "entry_id": entry.id,
        "entry_type": entry.type,
        "entry_actor": entry.actor,
        "entry_data": json.dumps(entry.data),
    }


def _message_parameters(message: OutboxMessage | None) -> dict[str, object]:
    if message is None:
        return _NO_MESSAGE
    return {
        "event_id": message.event_id,
        "topic": message.topic,
        "message_key": message.message_key,
        "aggregate_type": message.aggregate_type,
        "aggregate_id": message.aggregate_id,
        "event_type": message.event_type,
        "contract_version": message.contract_version,
        "payload": json.dumps(message.payload),
        "headers": json.dumps(message.headers),
        "occurred_at": message.occurred_at,
    }


def _provision(row: Row, members: tuple[Member, ...]) -> DealChatProvision:
    return DealChatProvision(
        id=row[0],
        deal_id=row[1],
        chat_id=row[2],
        title=row[3],
        project_id=row[4],
        deal_tenant_id=row[5],
        status=ProvisionStatus(row[6]),
        schedule=RetrySchedule(attempts=row[7], next_attempt_at=row[8], last_error=row[9]),
        members=members,
        created_at=row[10],
        updated_at=row[11],
        version=row[12],
    )


def _members(context: Row) -> tuple[Member, ...]:
    user_ids, roles = context[1:3]
    if user_ids is None:
        return ()
    return tuple(Member(user_id=user_id, role=role) for user_id, role in zip(user_ids, roles, strict=True))


def _chat(context: Row) -> Chat | None:
    id_, kind, status, deal_id, title, project_id, deal_tenant_id, created_at, updated_at, version = context[
        3:13
    ]
    if id_ is None:
        return None
    return Chat(
        id=id_,
        kind=kind,
        status=status,
        deal_id=deal_id,
        title=title,
        project_id=project_id,
        deal_tenant_id=deal_tenant_id,
        created_at=created_at,
        updated_at=updated_at,
        version=version,
    )


def _participants(context: Row) -> tuple[Participant, ...]:
    chat_id, ids, *columns = context[3], *context[13:18]
    if ids is None:
        return ()
    return tuple(
        Participant(id=id_, chat_id=chat_id, user_id=user_id, role=role, joined_at=joined_at, left_at=left_at)
        for id_, user_id, role, joined_at, left_at in zip(ids, *columns, strict=True)
    )


_NO_CHAT_SEEN: Final[dict[str, object]] = {
    "seen_chat_id": None,
    "seen_chat_version": None,
    "seen_chat_kind": None,
    "seen_chat_status": None,
}
_NO_NEW_CHAT: Final[dict[str, object]] = {
    "creates_chat": False,
    "chat_kind": None,
    "chat_status": None,
    "deal_id": None,
    "chat_title": None,
    "project_id": None,
    "deal_tenant_id": None,
    "entry_id": None,
    "entry_type": None,
    "entry_actor": None,
    "entry_data": None,
}
_NO_MESSAGE: Final[dict[str, object]] = {
    "event_id": None,
    "topic": None,
    "message_key": None,
    "aggregate_type": None,
    "aggregate_id": None,
    "event_type": None,
    "contract_version": None,
    "payload": None,
    "headers": None,
    "occurred_at": None,
}
