"""Connections from a pool, ours or a host's."""

from __future__ import annotations

import select
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias

import psycopg
from attrs import frozen
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from ...application.ports.errors import DatabaseUnavailable
from .bounded_connection import CONNECT_TIMEOUT, BoundedConnection, connect
from .connections import CLEANUP_TIMEOUT, Connection, Transaction, transaction_on
from .errors import TranslatedErrors
from .uninterrupted import uninterrupted

# The invariance of the type would refuse a host's pool of connections of a class of its own.
Pool: TypeAlias = AsyncConnectionPool[Any]

STATEMENT_TIMEOUT: Final = 10.0
LOCK_TIMEOUT: Final = 5.0
IDLE_IN_TRANSACTION_TIMEOUT: Final = 30.0
CHECKOUT_TIMEOUT: Final = 5.0
"""All in seconds; `BoundedConnection` bounds each answer on this side, behind the server's own limits."""


@asynccontextmanager
async def connection_pool(
    database_url: str, *, size: int, checkout_timeout: float = CHECKOUT_TIMEOUT
) -> AsyncGenerator[Pool]:
    """A pool of at most ``size`` connections to ``database_url``, closed with the context.

    Who finds none free waits for ``checkout_timeout`` seconds. Connects when first needed, so it can be opened before
    the database is up. Options in the URL win over ours.
    """
    pool: AsyncConnectionPool[BoundedConnection] = AsyncConnectionPool(
        pooled_conninfo(database_url),
        connection_class=BoundedConnection,
        kwargs={"autocommit": True},
        min_size=0,
        max_size=size,
        open=False,
        timeout=checkout_timeout,
        # Giving up early is what makes the pool try again at the next request, and not after a long backoff.
        reconnect_timeout=checkout_timeout,
        name="messenger-jobs",
    )
    await pool.open()
    try:
        yield pool
    finally:
        await uninterrupted(pool.close(timeout=CONNECT_TIMEOUT), timeout=CONNECT_TIMEOUT + CLEANUP_TIMEOUT)


def pooled_conninfo(database_url: str) -> str:
    """``database_url`` with our limits, keepalives and name, wherever it does not say otherwise."""
    given = conninfo_to_dict(database_url)
    limits = {
        "statement_timeout": STATEMENT_TIMEOUT,
        "lock_timeout": LOCK_TIMEOUT,
        "idle_in_transaction_session_timeout": IDLE_IN_TRANSACTION_TIMEOUT,
    }
    options = " ".join(f"-c {name}={int(seconds * 1000)}" for name, seconds in limits.items())
    ours: dict[str, Any] = {
        "application_name": "messenger-jobs",
        "connect_timeout": CONNECT_TIMEOUT,
        **KEEPALIVES,
        **given,
        "options": f"{options} -c TimeZone=UTC {given.get('options') or ''}",
    }
    return make_conninfo(**ours)


KEEPALIVES: Final = {
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""A vanished server is noticed within half a minute, also between statements."""


@frozen
class PooledConnections:
    """Gives out the pool's connections; a host may bring its own pool, whose settings then apply.

    A dead connection, as after a restart of the server, is replaced before anybody gets it.
    """

    pool: Pool

    @asynccontextmanager
    async def statement(self) -> AsyncGenerator[Connection]:
        """A connection on which every statement is a transaction of its own."""
        async with self._checked_out() as connection:
            if connection.autocommit:
                yield connection
            else:  # a host's pool
                async with transaction_on(connection) as transaction:
                    yield connection
                    await transaction.commit()

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Transaction]:
        """A new transaction, rolled back unless committed."""
        async with self._checked_out() as connection, transaction_on(connection) as transaction:
            yield transaction

    @asynccontextmanager
    async def _checked_out(self) -> AsyncGenerator[Connection]:
        with TranslatedErrors():
            connection = await self._check_out()
        try:
            yield connection
        except BaseException as error:
            # Its server may be a standby by now, or have no memory left for this session: a new one may lead further.
            if isinstance(error, DatabaseUnavailable):
                connection.pgconn.finish()
            await uninterrupted(self._give_back(connection), timeout=CLEANUP_TIMEOUT)
            raise
        else:  # for every row, so without the cost of a task
            await self._give_back(connection)

    async def _check_out(self) -> Connection:
        while True:
            try:
                connection: Connection = await self.pool.getconn()
            except PoolTimeout as timeout:
                raise await self._reason(timeout) from None
            try:
                if _has_unread_data(connection):
                    await self.pool.check_connection(connection)
                return connection
            except psycopg.OperationalError:
                await uninterrupted(self._give_back(connection), timeout=CLEANUP_TIMEOUT)
            except BaseException:
                await uninterrupted(self._give_back(connection), timeout=CLEANUP_TIMEOUT)
                raise

    async def _give_back(self, connection: Connection) -> None:
        if connection.pgconn.transaction_status != TransactionStatus.IDLE:
            connection.pgconn.finish()  # so that the server ends whatever is open, and the pool replaces it
        await self.pool.putconn(connection)

    async def _reason(self, timeout: PoolTimeout) -> psycopg.Error:
        """Why no connection could be had: the pool keeps that to itself, an attempt of our own tells."""
        conninfo, kwargs = self.pool.conninfo, self.pool.kwargs or {}
        if callable(conninfo) or callable(kwargs):
            return timeout
        try:
            connection: Connection = await connect(self.pool.connection_class, conninfo, **kwargs)
        except psycopg.Error as reason:
            return reason
        await connection.close()
        return timeout


def _has_unread_data(connection: Connection) -> bool:
    """Whether the server said something unasked: nearly always that it ends the connection. Costs a microsecond."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))
