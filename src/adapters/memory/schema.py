"""The tables of the schema ``messenger``, with the constraints of its migrations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from itertools import count
from math import isfinite
from typing import Final, TypeVar, cast
from uuid import UUID

import attrs
from attrs import frozen

from ...application.ports.outbox import OutboxMessage
from ...application.ports.realtime_outbox import RealtimeNotice
from ...domain.call_recording import CallRecording, RecordingStatus
from ...domain.chat import DEAL_CHAT_PROVISIONED, DEAL_KIND, Chat, ChatEvent, Participant
from ...domain.recording_finalize import RecordingFinalize
from .clock import ManualClock
from .database import MemoryDatabase
from .table import Reference, Rule, Table, Unique, is_encodable

Row = TypeVar("Row", bound=attrs.AttrsInstance)

_NUL_IN_JSON: Final = "22P05"
_NOT_JSON: Final = "22P02"


@frozen(kw_only=True)
class ProvisionRow:
    """A row of ``deal_chat_provisions``."""

    id: UUID
    deal_id: UUID
    chat_id: UUID | None
    title: str
    project_id: UUID | None
    deal_tenant_id: UUID | None
    status: str
    attempts: int
    next_attempt_at: datetime
    last_error: str | None
    created_at: datetime
    updated_at: datetime
    version: int


@frozen(kw_only=True)
class MemberRow:
    """A row of ``deal_chat_provision_members``."""

    provision_id: UUID
    user_id: UUID
    role: str


@frozen(kw_only=True)
class OutboxRow:
    """A row of ``outbox_messages``; ids are given in the order of insertion, which is not the order of commits."""

    id: int
    message: OutboxMessage
    created_at: datetime
    published_at: datetime | None = None
    published_partition: int | None = None
    published_offset: int | None = None
    attempts: int = 0
    last_error: str | None = None
    dead_at: datetime | None = None


class MessengerDatabase(MemoryDatabase):
    """An empty database.

    Rows of chats, participants, the feed, recordings and their finalizations are the domain's own classes.
    """

    def __init__(self, clock: ManualClock, *, lock_timeout: timedelta = timedelta(seconds=5)) -> None:
        super().__init__(clock, lock_timeout=lock_timeout)
        self._outbox_ids = count(1)

        self.chat_of_deal = Unique[Chat]("ux_chats_deal_id", lambda row: row.deal_id)
        self.chats = Table[Chat](
            "chats",
            key=Unique("pk_chats", lambda row: row.id),
            unique=(self.chat_of_deal,),
            rules=(
                *_text("kind", 16, lambda row: row.kind, "ck_chats_kind"),
                *_text("status", 16, lambda row: row.status, "ck_chats_status"),
                *_text("title", 256, lambda row: row.title),
                *_version(lambda row: row.version, "ck_chats_version"),
                Rule(
                    "ck_chats_deal",
                    lambda row: row.kind != DEAL_KIND or (row.deal_id is not None and row.title != ""),
                ),
            ),
        )
        self.participant_of_user = Unique[Participant](
            "ux_participants_chat_user", lambda row: (row.chat_id, row.user_id)
        )
        self.participants = Table[Participant](
            "participants",
            key=Unique("pk_participants", lambda row: row.id),
            unique=(self.participant_of_user,),
            rules=_text("role", 32, lambda row: row.role, "ck_participants_role"),
            references=(Reference("fk_participants_chat", lambda row: row.chat_id, self.chats),),
        )
        self.chat_events = Table[ChatEvent](
            "chat_events",
            key=Unique("pk_chat_events", lambda row: row.id),
            unique=(
                Unique(
                    "ux_chat_events_deal_chat_provisioned",
                    lambda row: row.chat_id if row.type == DEAL_CHAT_PROVISIONED else None,
                ),
            ),
            rules=(
                *_text("type", 64, lambda row: row.type, "ck_chat_events_type"),
                *_text("actor", 64, lambda row: row.actor, "ck_chat_events_actor"),
                *_json("data", lambda row: row.data),
            ),
            references=(Reference("fk_chat_events_chat", lambda row: row.chat_id, self.chats),),
        )
        self.provision_of_deal = Unique[ProvisionRow]("ux_dcp_deal", lambda row: row.deal_id)
        self.provisions = Table[ProvisionRow](
            "deal_chat_provisions",
            key=Unique("pk_deal_chat_provisions", lambda row: row.id),
            unique=(self.provision_of_deal,),
            rules=(
                *_text("title", 256, lambda row: row.title),
                *_text("status", 16, lambda row: row.status),
                *_text("last_error", 512, lambda row: row.last_error),
                *_attempts(lambda row: row.attempts, "ck_dcp_attempts"),
                *_version(lambda row: row.version, "ck_dcp_version"),
                Rule("ck_dcp_status", lambda row: row.status in ("Provisioning", "Ready", "Failed")),
                Rule("ck_dcp_ready", lambda row: row.status != "Ready" or row.chat_id is not None),
            ),
            references=(Reference("fk_dcp_chat", lambda row: row.chat_id, self.chats),),
        )
        self.members = Table[MemberRow](
            "deal_chat_provision_members",
            key=Unique("pk_deal_chat_provision_members", lambda row: (row.provision_id, row.user_id)),
            rules=_text("role", 32, lambda row: row.role, "ck_dcp_members_role"),
            references=(
                Reference("fk_dcp_members_provision", lambda row: row.provision_id, self.provisions),
            ),
        )
        self.outbox_of_dedupe_key = Unique[OutboxRow](
            "ux_outbox_dedupe_key", lambda row: row.message.dedupe_key
        )
        self.outbox = Table[OutboxRow](
            "outbox_messages",
            key=Unique("pk_outbox_messages", lambda row: row.id),
            unique=(
                Unique("ux_outbox_event_id", lambda row: row.message.event_id),
                self.outbox_of_dedupe_key,
            ),
            rules=(
                *_text("topic", 249, lambda row: row.message.topic, "ck_outbox_topic"),
                *_text("message_key", 256, lambda row: row.message.message_key),
                *_text(
                    "aggregate_type", 64, lambda row: row.message.aggregate_type, "ck_outbox_aggregate_type"
                ),
                *_text("aggregate_id", 64, lambda row: row.message.aggregate_id, "ck_outbox_aggregate_id"),
                *_text("event_type", 64, lambda row: row.message.event_type, "ck_outbox_event_type"),
                *_text("dedupe_key", 256, lambda row: row.message.dedupe_key),
                *_text("last_error", 512, lambda row: row.last_error),
                *_json("payload", lambda row: row.message.payload),
                *_json("headers", lambda row: row.message.headers),
                Rule("integer", lambda row: row.message.contract_version < 2**31, "22003"),
                Rule("ck_outbox_contract_version", lambda row: row.message.contract_version >= 1),
                *_attempts(lambda row: row.attempts, "ck_outbox_attempts"),
                Rule(
                    "ck_outbox_receipt",
                    lambda row: (
                        row.published_at is not None
                        or (row.published_partition is None and row.published_offset is None)
                    ),
                ),
                Rule("ck_outbox_end", lambda row: row.published_at is None or row.dead_at is None),
            ),
        )
        self.recordings = Table[CallRecording](
            "call_recordings",
            key=Unique("pk_call_recordings", lambda row: row.id),
            rules=(
                *_text("trigger", 32, lambda row: row.trigger),
                *_text("object_key", 512, lambda row: row.object_key, "ck_rec_object_key"),
                *_text("failure_reason", 64, lambda row: row.failure_reason),
                *_version(lambda row: row.version, "ck_rec_version"),
                Rule("bigint", lambda row: row.media is None or row.media.size_bytes < 2**63, "22003"),
                Rule("integer", lambda row: row.media is None or row.media.duration_seconds < 2**31, "22003"),
                Rule(
                    "ck_rec_failed",
                    lambda row: row.status is not RecordingStatus.FAILED or row.failure_reason is not None,
                ),
            ),
        )
        self.finalization_of_recording = Unique[RecordingFinalize](
            "ux_rfa_recording", lambda row: row.recording_id
        )
        self.finalizations = Table[RecordingFinalize](
            "recording_finalize_attempts",
            key=Unique("pk_recording_finalize_attempts", lambda row: row.id),
            unique=(self.finalization_of_recording,),
            rules=(
                *_text("last_error", 512, lambda row: row.schedule.last_error),
                *_attempts(lambda row: row.schedule.attempts, "ck_rfa_attempts"),
                *_version(lambda row: row.version, "ck_rfa_version"),
            ),
        )
        self.realtime_outbox = Table[RealtimeNotice](
            "realtime_outbox", key=Unique("pk_realtime_outbox", lambda row: row.id)
        )

    def next_outbox_id(self) -> int:
        """The next value of the identity; one whose row is rolled back is lost."""
        return next(self._outbox_ids)


def _text(
    column: str, limit: int, text: Callable[[Row], str | None], not_empty: str | None = None
) -> tuple[Rule[Row], ...]:
    def length(row: Row) -> int:
        return len(text(row) or "")

    fits = Rule[Row](f"{column} varchar({limit})", lambda row: length(row) <= limit, "22001")
    return (fits,) if not_empty is None else (fits, Rule(not_empty, lambda row: length(row) > 0))


def _attempts(number: Callable[[Row], int], check: str) -> tuple[Rule[Row], ...]:
    return (
        Rule("integer", lambda row: number(row) < 2**31, "22003"),
        Rule(check, lambda row: number(row) >= 0),
    )


def _version(number: Callable[[Row], int], check: str) -> tuple[Rule[Row], ...]:
    return (
        Rule("bigint", lambda row: number(row) < 2**63, "22003"),
        Rule(check, lambda row: number(row) >= 0),
    )


def _json(column: str, value: Callable[[Row], Mapping[str, object]]) -> tuple[Rule[Row], ...]:
    def without(fault: str) -> Rule[Row]:
        return Rule(f"{column} jsonb", lambda row: fault not in _json_faults(dict(value(row))), fault)

    return (without(_NUL_IN_JSON), without(_NOT_JSON))


def _json_faults(value: object) -> set[str]:
    match value:
        case str() if "\0" in value:
            return {_NUL_IN_JSON}
        case str() if not is_encodable(value):
            return {_NOT_JSON}
        case float() if not isfinite(value):
            return {_NOT_JSON}
        case dict():
            items = cast("dict[str, object]", value)
            return set[str]().union(*map(_json_faults, items.keys()), *map(_json_faults, items.values()))
        case list():
            return set[str]().union(*map(_json_faults, cast("list[object]", value)))
        case _:
            return set()
