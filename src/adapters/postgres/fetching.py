"""A statement's rows or their number; plain tuples in UTC, whatever rows and what zone a host's connection has."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final, LiteralString, cast

import psycopg
from attrs import frozen
from psycopg import AsyncCursor
from psycopg.abc import Params
from psycopg.rows import tuple_row

from ...application.ports.errors import RowRolledBack
from .connections import Connection, Connections
from .errors import TranslatedErrors

UNREADABLE_ROW: Final = "UNREADABLE_ROW"

Row = tuple[Any, ...]

# Stored is more than Python can hold: the times before year 1 and after 9999, numbers of thousands of digits in JSON.
_NOT_FOR_PYTHON: Final = (psycopg.DataError, ValueError, RecursionError)


@frozen
class UnreadableRow:
    """A row with a value that has no place in Python; its columns as the server has written them."""

    columns: tuple[str | None, ...]

    @property
    def id(self) -> str:
        """The first column."""
        return str(self.columns[0])


async def rows_on(
    connection: Connection,
    statement: LiteralString | bytes,
    parameters: Params,
    *,
    prepare: bool | None = None,
) -> list[Row]:
    """All rows of the statement; ``prepare`` as psycopg has it.

    Raises port errors, `RowRolledBack` (``UNREADABLE_ROW``) among them when one of the rows is unreadable.
    """
    rows = await rows_one_by_one(connection, statement, parameters, prepare=prepare)
    unreadable = [row for row in rows if isinstance(row, UnreadableRow)]
    if unreadable:
        raise RowRolledBack(
            UNREADABLE_ROW,
            f"a stored row has a value that cannot be, such as the time infinity: {unreadable[0].id}",
        )
    return [row for row in rows if not isinstance(row, UnreadableRow)]


async def rows_one_by_one(
    connection: Connection,
    statement: LiteralString | bytes,
    parameters: Params,
    *,
    prepare: bool | None = None,
) -> list[Row | UnreadableRow]:
    """The same for somebody who can do with some of the rows."""
    with TranslatedErrors():
        cursor = AsyncCursor(connection, row_factory=tuple_row)
        await cursor.execute(statement, parameters, prepare=prepare)
        rows: list[Row | UnreadableRow]
        try:
            rows = [*await cursor.fetchall()]
        except _NOT_FOR_PYTHON:
            rows = [await _row_at(cursor, number) for number in range(cursor.rowcount)]
    # Ours always is; for every value, asking would cost.
    if connection.pgconn.parameter_status(b"TimeZone") == b"UTC":
        return rows
    return [row if isinstance(row, UnreadableRow) else tuple(map(_in_utc, row)) for row in rows]


async def changed_rows_on(
    connection: Connection,
    statement: LiteralString | bytes,
    parameters: Params,
    *,
    prepare: bool | None = None,
) -> int:
    """How many rows the statement changed, or answered with; none is read. Raises port errors."""
    with TranslatedErrors():
        cursor = AsyncCursor(connection, row_factory=tuple_row)
        await cursor.execute(statement, parameters, prepare=prepare)
        return cursor.rowcount


async def rows_from(
    connections: Connections,
    statement: LiteralString | bytes,
    parameters: Params,
    *,
    prepare: bool | None = None,
) -> list[Row]:
    """The same as `rows_on`, of a statement that is a transaction of its own."""
    async with connections.statement() as connection:
        return await rows_on(connection, statement, parameters, prepare=prepare)


async def changes_a_row(
    connections: Connections, statement: LiteralString | bytes, parameters: Params
) -> bool:
    """Whether a prepared statement, a transaction of its own, changed or answered with exactly one row."""
    async with connections.statement() as connection:
        return await changed_rows_on(connection, statement, parameters, prepare=True) == 1


async def _row_at(cursor: AsyncCursor[Row], number: int) -> Row | UnreadableRow:
    await cursor.scroll(number, mode="absolute")
    try:
        row = await cursor.fetchone()
    except _NOT_FOR_PYTHON:
        result = cursor.pgresult
        assert result is not None
        written = (result.get_value(number, column) for column in range(result.nfields))
        return UnreadableRow(tuple(None if value is None else bytes(value).decode() for value in written))
    assert row is not None
    return row


def _in_utc(value: object) -> object:
    """In the zone of a session, a day may have 25 hours: sums and differences of its times would be an hour off."""
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    return [*map(_in_utc, cast("list[object]", value))] if isinstance(value, list) else value
