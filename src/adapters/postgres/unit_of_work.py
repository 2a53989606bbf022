"""What every unit of work on PostgreSQL has, whatever it is about."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import LiteralString

from attrs import frozen
from psycopg import AsyncTransaction
from psycopg.abc import Params

from ...application.ports.outbox import Outbox
from .connections import Connection, Transaction
from .errors import TranslatedErrors
from .fetching import Row, changed_rows_on, rows_on
from .outbox import PostgresOutbox

OutboxOn = Callable[[Connection], Outbox]
"""Makes the outbox that writes in the transaction which is open on the connection."""


@frozen
class PostgresUnitOfWork:
    """See `UnitOfWork`. Its owner ends the transaction, which is rolled back then unless committed.

    Messages go to a host's own outbox where there is one.
    """

    _transaction: Transaction
    _own_outbox: OutboxOn | None = None

    @property
    def connection(self) -> Connection:
        """Where the transaction is open."""
        return self._transaction.connection

    @property
    def outbox(self) -> Outbox:
        """Writes integration events in this transaction."""
        return (self._own_outbox or PostgresOutbox)(self.connection)

    async def commit(self) -> None:
        """See `UnitOfWork.commit`."""
        await self._transaction.commit()

    @asynccontextmanager
    async def savepoint(self) -> AsyncGenerator[None]:
        """See `UnitOfWork.savepoint`."""
        with TranslatedErrors():
            async with AsyncTransaction(self.connection):
                yield

    async def _row(self, statement: LiteralString, parameters: Params) -> Row | None:
        """The first row of the statement, if there is one."""
        rows = await rows_on(self.connection, statement, parameters)
        return rows[0] if rows else None

    async def _changes_a_row(self, statement: LiteralString, parameters: Params) -> bool:
        return await changed_rows_on(self.connection, statement, parameters) == 1
