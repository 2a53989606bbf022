"""Where statements and transactions get their connection from: a pool, or a host's own open connection."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, Protocol

import psycopg
from attrs import define, field
from psycopg import AsyncConnection, AsyncTransaction
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow

from ...application.ports.errors import RowRolledBack
from .errors import TranslatedErrors
from .uninterrupted import uninterrupted

Connection = AsyncConnection[TupleRow]

CLEANUP_TIMEOUT: Final = 5.0
"""Seconds for a rollback, or for giving a connection back, before the connection is closed instead."""


class Connections(Protocol):
    """Gives out connections, one to a user at a time.

    Whatever ends their context, cancellation included, no transaction stays open on the connection and the connection
    is given back, or closed where its state is not known. Raises `DatabaseUnavailable` or `Misconfigured`.
    """

    def statement(self) -> AbstractAsyncContextManager[Connection]:
        """For one statement that is a transaction of its own, or a part of the host's open transaction."""
        ...

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """For several statements; rolled back unless committed. In a host's open transaction it is a savepoint."""
        ...


@define(eq=False)
class Transaction:
    """An open transaction, or the savepoint that stands for it in a host's transaction."""

    connection: Connection
    _inner: AsyncTransaction
    _committing: bool = field(default=False, init=False)

    async def commit(self) -> None:
        """Commit, or release the savepoint. Raises `DatabaseUnavailable` when the answer never came."""
        if self.connection.pgconn.transaction_status == TransactionStatus.INERROR:
            # The server answers the commit of a failed transaction with a rollback, and calls that a success.
            raise RowRolledBack("25P02", "the transaction had failed before its commit (SQLSTATE 25P02)")
        self._committing = True
        self._inner.force_rollback = False
        with TranslatedErrors():
            await self._inner.__aexit__(None, None, None)

    async def end(self) -> None:
        """Roll back what was not committed, in bounded time; the connection is closed when that fails."""
        status = self.connection.pgconn.transaction_status
        if not self._committing and status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
            try:
                await uninterrupted(self._inner.__aexit__(None, None, None), timeout=CLEANUP_TIMEOUT)
            except (psycopg.Error, TimeoutError):
                await self.connection.close()
        elif status == TransactionStatus.ACTIVE:
            await self.connection.close()


@asynccontextmanager
async def transaction_on(connection: Connection) -> AsyncGenerator[Transaction]:
    """A transaction on ``connection``, or a savepoint where one is open; rolled back unless committed."""
    inner = AsyncTransaction(connection, force_rollback=True)
    with TranslatedErrors():
        await inner.__aenter__()
    transaction = Transaction(connection, inner)
    try:
        yield transaction
    finally:
        await transaction.end()
