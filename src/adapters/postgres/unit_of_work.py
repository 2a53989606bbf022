"""What every unit of work on PostgreSQL has, whatever it is about."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from attrs import frozen
from psycopg import AsyncTransaction

from .connections import Connection, Transaction
from .errors import TranslatedErrors
from .outbox import PostgresOutbox


@frozen
class PostgresUnitOfWork:
    """See `UnitOfWork`. Its owner ends the transaction, which is rolled back then unless committed."""

    _transaction: Transaction

    @property
    def connection(self) -> Connection:
        """Where the transaction is open."""
        return self._transaction.connection

    @property
    def outbox(self) -> PostgresOutbox:
        """Writes integration events in this transaction."""
        return PostgresOutbox(self.connection)

    async def commit(self) -> None:
        """See `UnitOfWork.commit`."""
        await self._transaction.commit()

    @asynccontextmanager
    async def savepoint(self) -> AsyncGenerator[None]:
        """See `UnitOfWork.savepoint`."""
        with TranslatedErrors():
            async with AsyncTransaction(self.connection):
                yield
