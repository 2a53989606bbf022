"""The tables of the schema ``messenger``, with the constraints of its migrations."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import count
from typing import Final
from uuid import UUID

from attrs import frozen

from ...application.ports.outbox import OutboxMessage
from ...application.ports.realtime_outbox import RealtimeNotice
from ...domain.call_recording import CallRecording, RecordingStatus
from ...domain.chat import DEAL_CHAT_PROVISIONED, DEAL_KIND, Chat, ChatEvent, Participant
from ...domain.recording_finalize import RecordingFinalize
from .clock import ManualClock
from .columns import attempts_rules, json_rules, text_rules, version_rules
from .database import MemoryDatabase
from .table import Reference, Rule, Table, Unique


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


_CHAT_RULES: Final[tuple[Rule[Chat], ...]] = (
    *text_rules("kind", 16, lambda row: row.kind, "ck_chats_kind"),
    *text_rules("status", 16, lambda row: row.status, "ck_chats_status"),
    *text_rules("title", 256, lambda row: row.title),
    *version_rules(lambda row: row.version, "ck_chats_version"),
    Rule(
        "ck_chats_deal",
        lambda row: row.kind != DEAL_KIND or (row.deal_id is not None and row.title != ""),
    ),
)

_PARTICIPANT_RULES: Final[tuple[Rule[Participant], ...]] = text_rules(
    "role", 32, lambda row: row.role, "ck_participants_role"
)

_CHAT_EVENT_RULES: Final[tuple[Rule[ChatEvent], ...]] = (
    *text_rules("type", 64, lambda row: row.type, "ck_chat_events_type"),
    *text_rules("actor", 64, lambda row: row.actor, "ck_chat_events_actor"),
    *json_rules("data", lambda row: row.data),
)

_PROVISION_RULES: Final[tuple[Rule[ProvisionRow], ...]] = (
    *text_rules("title", 256, lambda row: row.title),
    *text_rules("status", 16, lambda row: row.status),
    *text_rules("last_error", 512, lambda row: row.last_error),
    *attempts_rules(lambda row: row.attempts, "ck_dcp_attempts"),
    *version_rules(lambda row: row.version, "ck_dcp_version"),
    Rule("ck_dcp_status", lambda row: row.status in ("Provisioning", "Ready", "Failed")),
    Rule("ck_dcp_ready", lambda row: row.status != "Ready" or row.chat_id is not None),
)

_MEMBER_RULES: Final[tuple[Rule[MemberRow], ...]] = text_rules(
    "role", 32, lambda row: row.role, "ck_dcp_members_role"
)

_OUTBOX_RULES: Final[tuple[Rule[OutboxRow], ...]] = (
    *text_rules("topic", 249, lambda row: row.message.topic, "ck_outbox_topic"),
    *text_rules("message_key", 256, lambda row: row.message.message_key),
    *text_rules("aggregate_type", 64, lambda row: row.message.aggregate_type, "ck_outbox_aggregate_type"),
    *text_rules("aggregate_id", 64, lambda row: row.message.aggregate_id, "ck_outbox_aggregate_id"),
    *text_rules("event_type", 64, lambda row: row.message.event_type, "ck_outbox_event_type"),
    *text_rules("dedupe_key", 256, lambda row: row.message.dedupe_key),
    *text_rules("last_error", 512, lambda row: row.last_error),
    *json_rules("payload", lambda row: row.message.payload),
    *json_rules("headers", lambda row: row.message.headers),
    Rule("integer", lambda row: row.message.contract_version < 2**31, "22003"),
    Rule("ck_outbox_contract_version", lambda row: row.message.contract_version >= 1),
    *attempts_rules(lambda row: row.attempts, "ck_outbox_attempts"),
    Rule(
        "ck_outbox_receipt",
        lambda row: (
            row.published_at is not None or (row.published_partition is None and row.published_offset is None)
        ),
    ),
    Rule("ck_outbox_end", lambda row: row.published_at is None or row.dead_at is None),
)

_RECORDING_RULES: Final[tuple[Rule[CallRecording], ...]] = (
    *text_rules("trigger", 32, lambda row: row.trigger),
    *text_rules("object_key", 512, lambda row: row.object_key, "ck_rec_object_key"),
    *text_rules("failure_reason", 64, lambda row: row.failure_reason),
    *version_rules(lambda row: row.version, "ck_rec_version"),
    Rule("bigint", lambda row: row.media is None or row.media.size_bytes < 2**63, "22003"),
    Rule("integer", lambda row: row.media is None or row.media.duration_seconds < 2**31, "22003"),
    Rule(
        "ck_rec_failed",
        lambda row: row.status is not RecordingStatus.FAILED or row.failure_reason is not None,
    ),
)

_FINALIZATION_RULES: Final[tuple[Rule[RecordingFinalize], ...]] = (
    *text_rules("last_error", 512, lambda row: row.schedule.last_error),
    *attempts_rules(lambda row: row.schedule.attempts, "ck_rfa_attempts"),
    *version_rules(lambda row: row.version, "ck_rfa_version"),
)


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
            rules=_CHAT_RULES,
        )
        self.participant_of_user = Unique[Participant](
            "ux_participants_chat_user", lambda row: (row.chat_id, row.user_id)
        )
        self.participants = Table[Participant](
            "participants",
            key=Unique("pk_participants", lambda row: row.id),
            unique=(self.participant_of_user,),
            rules=_PARTICIPANT_RULES,
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
            rules=_CHAT_EVENT_RULES,
            references=(Reference("fk_chat_events_chat", lambda row: row.chat_id, self.chats),),
        )
        self.provision_of_deal = Unique[ProvisionRow]("ux_dcp_deal", lambda row: row.deal_id)
        self.provisions = Table[ProvisionRow](
            "deal_chat_provisions",
            key=Unique("pk_deal_chat_provisions", lambda row: row.id),
            unique=(self.provision_of_deal,),
            rules=_PROVISION_RULES,
            references=(Reference("fk_dcp_chat", lambda row: row.chat_id, self.chats),),
        )
        self.members = Table[MemberRow](
            "deal_chat_provision_members",
            key=Unique("pk_deal_chat_provision_members", lambda row: (row.provision_id, row.user_id)),
            rules=_MEMBER_RULES,
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
            rules=_OUTBOX_RULES,
        )
        self.recordings = Table[CallRecording](
            "call_recordings",
            key=Unique("pk_call_recordings", lambda row: row.id),
            rules=_RECORDING_RULES,
        )
        self.finalization_of_recording = Unique[RecordingFinalize](
            "ux_rfa_recording", lambda row: row.recording_id
        )
        self.finalizations = Table[RecordingFinalize](
            "recording_finalize_attempts",
            key=Unique("pk_recording_finalize_attempts", lambda row: row.id),
            unique=(self.finalization_of_recording,),
            rules=_FINALIZATION_RULES,
        )
        self.realtime_outbox = Table[RealtimeNotice](
            "realtime_outbox", key=Unique("pk_realtime_outbox", lambda row: row.id)
        )

    def next_outbox_id(self) -> int:
        """The next value of the identity; one whose row is rolled back is lost."""
        return next(self._outbox_ids)
