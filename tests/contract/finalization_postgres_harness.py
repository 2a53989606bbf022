"""The PostgreSQL adapter's harness for recordings."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from attrs import asdict
from messenger_jobs.adapters.postgres.connections import Connections
from messenger_jobs.adapters.postgres.finalization_store import PostgresFinalizationStore
from messenger_jobs.application.ports.outbox import OutboxMessage
from messenger_jobs.application.ports.realtime_outbox import RealtimeKind, RealtimeNotice
from messenger_jobs.domain.call_recording import (
    CallRecording,
    Media,
    MediaType,
    RecordingStatus,
    SessionKind,
)
from messenger_jobs.domain.evidence import RecordingFormat
from messenger_jobs.domain.recording_finalize import FinalizeStatus, RecordingFinalize
from messenger_jobs.domain.retry_schedule import RetrySchedule
from psycopg import AsyncConnection, sql

from tests.contract.finalization_harness import FinalizationHarness, Stored, Thing
from tests.contract.postgres_users import PostgresUsers, TwoHosts, TwoPools, on_two_hosts, on_two_pools


class PostgresFinalizationHarness(PostgresUsers, FinalizationHarness):
    """On tables as the migrations make them."""

    def lend(self, *connections: Connections) -> None:
        self.store, self.other = map(PostgresFinalizationStore, connections)

    @asynccontextmanager
    async def writing(self, *things: Thing) -> AsyncGenerator[None]:
        async with await AsyncConnection.connect(self.url) as connection:
            for thing in things:
                table, columns = columns_of(thing)
                await connection.execute(*upsert(table, columns))
            yield

    async def stored(self) -> Stored:
        return Stored(
            recordings=[_recording(row) for row in self._rows("call_recordings")],
            entries=[_entry(row) for row in self._rows("recording_finalize_attempts")],
            messages=[_message(row) for row in self._rows("outbox_messages")],
            notices=[_notice(row) for row in self._rows("realtime_outbox")],
        )

    def _rows(self, table: str) -> list[dict[str, Any]]:
        query = sql.SQL("select * from messenger.{} order by id").format(sql.Identifier(table))
        return self.observer.execute(query).fetchall()


class PooledFinalizationHarness(TwoPools, PostgresFinalizationHarness):
    """See both."""


class HostsFinalizationHarness(TwoHosts, PostgresFinalizationHarness):
    """See both."""


def pooled_finalization_harness(url: str) -> AbstractAsyncContextManager[PooledFinalizationHarness]:
    return on_two_pools(PooledFinalizationHarness, url)


def hosts_finalization_harness(url: str) -> AbstractAsyncContextManager[HostsFinalizationHarness]:
    return on_two_hosts(HostsFinalizationHarness, url)


def columns_of(thing: Thing) -> tuple[str, dict[str, Any]]:
    """The thing's table and its columns by name."""
    columns = asdict(
        thing, recurse=False, value_serializer=lambda _, __, value: getattr(value, "value", value)
    )
    if isinstance(thing, RecordingFinalize):
        columns |= asdict(columns.pop("schedule"))
        return "recording_finalize_attempts", columns
    media = columns.pop("media")
    nothing = dict.fromkeys(("file_id", "size_bytes", "duration_seconds", "format"))
    columns |= nothing if media is None else asdict(media) | {"format": media.format.value}
    return "call_recordings", columns


def upsert(table: str, columns: dict[str, Any]) -> tuple[sql.Composed, dict[str, Any]]:
    """A statement that puts the row there, new or in place of the one with its id."""
    query = sql.SQL("insert into messenger.{} ({}) values ({}) on conflict (id) do update set {}").format(
        sql.Identifier(table),
        sql.SQL(", ").join(map(sql.Identifier, columns)),
        sql.SQL(", ").join(map(sql.Placeholder, columns)),
        sql.SQL(", ").join(sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in columns),
    )
    return query, columns


def _recording(row: dict[str, Any]) -> CallRecording:
    media = {name: row.pop(name) for name in ("file_id", "size_bytes", "duration_seconds", "format")}
    return CallRecording(
        **row
        | {
            "session_kind": SessionKind(row["session_kind"]),
            "media_type": MediaType(row["media_type"]),
            "status": RecordingStatus(row["status"]),
            "media": _media(**media),
        }
    )


def _media(*, file_id: Any, size_bytes: Any, duration_seconds: Any, format: Any) -> Media | None:
    if file_id is None:
        return None
    return Media(
        file_id=file_id,
        size_bytes=size_bytes,
        duration_seconds=duration_seconds,
        format=RecordingFormat(format),
    )


def _entry(row: dict[str, Any]) -> RecordingFinalize:
    schedule = {name: row.pop(name) for name in ("attempts", "next_attempt_at", "last_error")}
    return RecordingFinalize(
        **row
        | {
            "session_kind": SessionKind(row["session_kind"]),
            "status": FinalizeStatus(row["status"]),
            "schedule": RetrySchedule(**schedule),
        }
    )


def _message(row: dict[str, Any]) -> OutboxMessage:
    return OutboxMessage(**{name: row[name] for name in OutboxMessage.__annotations__})


def _notice(row: dict[str, Any]) -> RealtimeNotice:
    assert row.pop("dispatched_at") is None
    return RealtimeNotice(
        **row | {"kind": RealtimeKind(row["kind"]), "session_kind": SessionKind(row["session_kind"])}
    )
