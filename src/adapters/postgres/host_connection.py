"""A host's own open connection, and with it the host's own transaction."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from attrs import define, field
from psycopg import AsyncConnection, AsyncCursor
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from .connections import Connection, Transaction, transaction_on
from .errors import TranslatedErrors


@define(eq=False)
class HostConnection:
    """Works on a connection that the host opened and will close, one user at a time.

    While the host has a transaction open, everything is a savepoint in it and nothing is committed: the host's commit
    decides. Without one, every statement and every unit of work is a transaction of its own, in autocommit mode or not.
    The host must not use the connection at the same time.
    """

    _connection: AsyncConnection[Any]
    _turn: asyncio.Lock = field(factory=asyncio.Lock, init=False)
    _user: asyncio.Task[Any] | None = field(default=None, init=False)

    @asynccontextmanager
    async def statement(self) -> AsyncGenerator[Connection]:
        """The connection; what is done on it is undone when the context ends with an error."""
        async with self.transaction() as transaction:
            yield transaction.connection
            await transaction.commit()

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Transaction]:
        """A transaction, or a savepoint in the host's; rolled back unless committed.

        Raises `RuntimeError` within another one of the same task, which would wait for itself.
        """
        task = asyncio.current_task()
        if self._user is task:
            raise RuntimeError(
                "this task has a unit of work open on the host's connection: go on in that one"
            )
        async with self._turn:
            self._user = task
            try:
                async with transaction_on(self._connection) as transaction:
                    yield transaction
            finally:
                self._user = None


@define(eq=False)
class HostTransaction:
    """Works in the host's own transaction and never outside it: the host's commit decides, always.

    For a connection whose driver, pool or ORM opens the transaction with the first statement, and which may be lent
    before that one: the transaction is opened here then. The host must not use the connection at the same time.
    """

    _connection: AsyncConnection[Any]
    _lent: HostConnection = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._lent = HostConnection(self._connection)

    @asynccontextmanager
    async def statement(self) -> AsyncGenerator[Connection]:
        """The connection; what is done on it is undone when the context ends with an error."""
        async with self.transaction() as transaction:
            yield transaction.connection
            await transaction.commit()

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Transaction]:
        """A savepoint in the host's transaction; rolled back unless committed.

        Raises `RuntimeError` in autocommit mode without an open transaction, for nobody would commit it, and like
        `HostConnection.transaction`.
        """
        if self._connection.pgconn.transaction_status == TransactionStatus.IDLE:
            if self._connection.autocommit:
                raise RuntimeError("the host's connection is in autocommit mode and has no transaction open")
            with TranslatedErrors():
                # Opens the transaction, as any first statement does; the host's kind of rows may refuse this one.
                await AsyncCursor(self._connection, row_factory=tuple_row).execute("select 1")
        async with self._lent.transaction() as transaction:
            yield transaction
