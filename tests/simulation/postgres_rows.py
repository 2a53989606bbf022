"""The rows of the model as PostgreSQL has them: by table, as columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import psycopg
from attrs import asdict
from messenger_jobs.adapters.memory.schema import OutboxRow
from messenger_jobs.domain.call_recording import CallRecording
from messenger_jobs.domain.recording_finalize import RecordingFinalize
from psycopg import sql
from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from tests.contract.finalization_postgres_harness import columns_of as columns_of_recording

Observer = psycopg.Connection[DictRow]
Columns = dict[str, Any]

KEYS: Final[dict[str, tuple[str, ...]]] = {
    "chats": ("id",),
    "participants": ("id",),
    "chat_events": ("id",),
    "deal_chat_provisions": ("id",),
    "deal_chat_provision_members": ("provision_id", "user_id"),
    "outbox_messages": ("event_id",),  # numbers are lost with what is rolled back
    "call_recordings": ("id",),
    "recording_finalize_attempts": ("id",),
    "realtime_outbox": ("id",),
}
"""Every table and its primary key; a table stands behind those that it refers to."""

_NOT_OURS: Final = {
    "outbox_messages": {"id", "created_at"},
    "realtime_outbox": {"dispatched_at"},
}
"""Columns that no port writes: the server's own numbers and time, and what another worker does."""


def columns_of(row: Any) -> Columns:
    """A row of the model by columns."""
    match row:
        case CallRecording() | RecordingFinalize():
            return columns_of_recording(row)[1]
        case OutboxRow():
            columns = asdict(row, recurse=False)
            message = asdict(columns.pop("message"), recurse=False)
            return columns | message
        case _:
            return asdict(
                row, recurse=False, value_serializer=lambda _, __, value: getattr(value, "value", value)
            )


def by_key(table: str, rows: Sequence[Columns]) -> dict[tuple[Any, ...], Columns]:
    """Rows as columns by primary key, without the columns that no port writes."""
    left_out = _NOT_OURS.get(table, set[str]())
    return {
        tuple(row[name] for name in KEYS[table]): {
            name: value for name, value in row.items() if name not in left_out
        }
        for row in rows
    }


def differences(
    table: str, model: Mapping[tuple[Any, ...], Columns], real: Mapping[tuple[Any, ...], Columns]
) -> list[str]:
    """One line for each row, or column of a row, that is not the same in both."""
    lines: list[str] = []
    for key in [*model, *(key for key in real if key not in model)]:
        ours, theirs = model.get(key), real.get(key)
        if ours is None or theirs is None:
            lines.append(f"{table} {key}: {'only in PostgreSQL' if ours is None else 'only in the model'}")
        else:
            lines += [
                f"{table} {key}: {name} is {ours[name]!r} in the model, {theirs.get(name)!r} in PostgreSQL"
                for name in ours
                if ours[name] != theirs.get(name)
            ]
    return lines


def committed(observer: Observer, tables: Sequence[str]) -> dict[str, list[Columns]]:
    """All rows of the tables, in one exchange."""
    queries = [sql.SQL("select * from messenger.{}").format(sql.Identifier(table)) for table in tables]
    with observer.pipeline():
        cursors = [observer.execute(query) for query in queries]
    return {table: cursor.fetchall() for table, cursor in zip(tables, cursors, strict=True)}


def clear(observer: Observer) -> None:
    """No rows."""
    with observer.pipeline():
        for table in reversed(KEYS):
            observer.execute(sql.SQL("delete from messenger.{}").format(sql.Identifier(table)))


def put(writer: Observer, table: str, rows: Sequence[Any]) -> None:
    """Write rows, each new or in place of the one with its primary key, all or none of them."""
    with writer.transaction():
        for row in rows:
            columns = columns_of(row)
            if isinstance(row, OutboxRow):
                columns |= {name: Jsonb(columns[name]) for name in ("payload", "headers")}
                del columns["id"]  # given in the order of insertion, there as here
            if not writer.execute(*_update(table, columns)).rowcount:
                writer.execute(*_insert(table, columns))


def _update(table: str, columns: Columns) -> tuple[sql.Composed, Columns]:
    statement = sql.SQL("update messenger.{} set {} where {}").format(
        sql.Identifier(table),
        sql.SQL(", ").join(map(_is, columns)),
        sql.SQL(" and ").join(map(_is, KEYS[table])),
    )
    return statement, columns


def _insert(table: str, columns: Columns) -> tuple[sql.Composed, Columns]:
    statement = sql.SQL("insert into messenger.{} ({}) values ({})").format(
        sql.Identifier(table),
        sql.SQL(", ").join(map(sql.Identifier, columns)),
        sql.SQL(", ").join(map(sql.Placeholder, columns)),
    )
    return statement, columns


def _is(column: str) -> sql.Composed:
    return sql.SQL("{} = {}").format(sql.Identifier(column), sql.Placeholder(column))
