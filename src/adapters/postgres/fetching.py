"""A statement's rows, as plain tuples whatever kind of rows a host's connection makes."""

from __future__ import annotations

from typing import Any, LiteralString

from psycopg import AsyncCursor
from psycopg.abc import Params
from psycopg.rows import tuple_row

from .connections import Connection, Connections
from .errors import TranslatedErrors

Row = tuple[Any, ...]


async def rows_on(
    connection: Connection,
    statement: LiteralString | bytes,
    parameters: Params,
    *,
    prepare: bool | None = None,
) -> list[Row]:
    """All rows of the statement; ``prepare`` as psycopg has it. Raises port errors."""
    with TranslatedErrors():
        cursor = AsyncCursor(connection, row_factory=tuple_row)
        await cursor.execute(statement, parameters, prepare=prepare)
        return await cursor.fetchall()


async def rows_from(
    connections: Connections,
    statement: LiteralString | bytes,
    parameters: Params,
    *,
    prepare: bool | None = None,
) -> list[Row]:
    """The same, of a statement that is a transaction of its own."""
    async with connections.statement() as connection:
        return await rows_on(connection, statement, parameters, prepare=prepare)
