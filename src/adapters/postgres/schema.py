"""Whether the database has what this version reads and writes, whoever created it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, LiteralString

from psycopg import AsyncCursor
from psycopg.rows import tuple_row

from ...application.ports.errors import Misconfigured
from .connections import Connections
from .errors import TranslatedErrors

COLUMNS: Final[Mapping[str, str]] = {
    "chats": "id kind status deal_id title project_id deal_tenant_id created_at updated_at version",
    "participants": "id chat_id user_id role joined_at left_at",
    "chat_events": "id chat_id type actor occurred_at data",
    "deal_chat_provisions": (
        "id deal_id chat_id title project_id deal_tenant_id status attempts next_attempt_at last_error "
        "created_at updated_at version"
    ),
    "deal_chat_provision_members": "provision_id user_id role",
    "outbox_messages": (
        "id event_id topic message_key aggregate_type aggregate_id event_type contract_version payload "
        "headers dedupe_key occurred_at created_at published_at published_partition published_offset "
        "attempts last_error dead_at"
    ),
    "call_recordings": (
        "id session_kind session_id session_ended_at chat_id deal_id tenant_id media_type status trigger "
        "object_key file_id size_bytes duration_seconds format failure_reason started_at ended_at "
        "available_at created_at updated_at version"
    ),
    "recording_finalize_attempts": (
        "id recording_id session_kind session_id status attempts next_attempt_at last_error created_at "
        "updated_at version"
    ),
    "realtime_outbox": "id kind session_kind session_id reference_id created_at dispatched_at",
}
"""Every table of the schema ``messenger``, with its columns."""

INDEXES: Final = frozenset(
    {
        "ux_chats_deal_id",
        "ux_participants_chat_user",
        "ix_chat_events_chat",
        "ux_chat_events_deal_chat_provisioned",
        "ux_dcp_deal",
        "ix_dcp_tenant",
        "ix_dcp_due",
        "ux_outbox_event_id",
        "ux_outbox_dedupe_key",
        "ix_outbox_unpublished",
        "ix_outbox_published",
        "ix_outbox_dead",
        "ix_recording_active",
        "ux_rfa_recording",
        "ix_rfa_due",
        "ix_rfa_quarantined",
        "ix_realtime_undispatched",
    }
)
"""Its indexes, other than those of primary keys."""

_PRESENT: Final[LiteralString] = """
select case when a.attname is null then c.relname else c.relname || '.' || a.attname end
from pg_class c
left join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and c.relkind in ('r', 'p')
where c.relnamespace = to_regnamespace('messenger')
"""


async def missing_from_schema(connections: Connections) -> frozenset[str]:
    """What the database lacks, as ``table.column`` or the name of an index; empty when nothing.

    What it has beyond is none of our business. Raises `DatabaseUnavailable` or `Misconfigured`.
    """
    async with connections.statement() as connection:
        with TranslatedErrors():
            cursor = await AsyncCursor(connection, row_factory=tuple_row).execute(_PRESENT)
            present = {name for (name,) in await cursor.fetchall()}
    return frozenset(needed() - present)


async def require_schema(connections: Connections) -> None:
    """Raise `Misconfigured` (``SCHEMA_MISSING`` or ``SCHEMA_OLD``) unless the database has all of it."""
    missing = await missing_from_schema(connections)
    if missing == needed():
        raise Misconfigured("SCHEMA_MISSING", "the database has no messenger tables: run the migrations")
    if missing:
        raise Misconfigured(
            "SCHEMA_OLD",
            f"the database lacks {', '.join(sorted(missing)[:3])}{' and more' if len(missing) > 3 else ''}: "
            "run the migrations",
        )


def needed() -> frozenset[str]:
    """Everything that `missing_from_schema` looks for."""
    columns = {f"{table}.{column}" for table, names in COLUMNS.items() for column in names.split()}
    return frozenset(columns | INDEXES)
