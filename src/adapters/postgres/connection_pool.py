"""Connections from a pool, ours or a host's."""

from __future__ import annotations

import asyncio
import math
import select
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Final, TypeAlias

import psycopg
from attrs import define, field
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


_Waiting: TypeAlias = "asyncio.Future[Connection | None]"
"""Ends with a connection that is handed on, or with none where the pool is to give one."""


@define(eq=False)
class PooledConnections:
    """Gives out the pool's connections, at most ``share`` of them at once where that is given.

    Who comes later waits in line, and is handed the connection of whoever is done first. That costs neither the pool's
    bookkeeping nor a look whether the connection is alive, for it has just answered; and it leaves the rest of the pool
    to others. The wait has no time limit of its own, but those of the statements ahead.

    A host may bring its own pool, whose settings then apply. A dead connection, as after a restart of the server, is
    replaced before anybody gets it.
    """

    pool: Pool
    share: int | None = None
    _free: float = field(init=False)
    _line: deque[_Waiting] = field(factory=deque["_Waiting"], init=False)

    def __attrs_post_init__(self) -> None:
        self._free = math.inf if self.share is None else self.share

    @asynccontextmanager
    async def statement(self) -> AsyncGenerator[Connection]:
        """A connection on which every statement is a transaction of its own."""
        async with _Turn(self) as connection:
            if connection.autocommit:
                yield connection
            else:  # a host's pool
                async with transaction_on(connection) as transaction:
                    yield connection
                    await transaction.commit()

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Transaction]:
        """A new transaction, rolled back unless committed."""
        async with _Turn(self) as connection, transaction_on(connection) as transaction:
            yield transaction

    async def take(self) -> Connection:
        """Wait for a turn, and take the connection that belongs to it."""
        if self._free:
            self._free -= 1
        else:
            turn: _Waiting = asyncio.get_running_loop().create_future()
            self._line.append(turn)
            try:
                handed_on = await turn
            except asyncio.CancelledError:
                if not turn.cancelled():  # it came at the same moment
                    await uninterrupted(self.give_back(turn.result()), timeout=CLEANUP_TIMEOUT)
                raise
            if handed_on is not None:
                return handed_on
        try:
            return await self._check_out()
        except BaseException:
            await self.give_back(None)
            raise

    async def give_back(self, connection: Connection | None) -> None:
        """End the turn: the next in line gets it, and the connection where that is as good as new."""
        reusable = connection is not None and connection.pgconn.transaction_status == TransactionStatus.IDLE
        if reusable and self._hand_on(connection):
            return
        try:
            if connection is not None:
                await self._put_back(connection)
        finally:
            if not self._hand_on(None):
                self._free += 1

    def _hand_on(self, connection: Connection | None) -> bool:
        while self._line:
            turn = self._line.popleft()
            if not turn.done():
                turn.set_result(connection)
                return True
        return False

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
                await uninterrupted(self._put_back(connection), timeout=CLEANUP_TIMEOUT)
            except BaseException:
                await uninterrupted(self._put_back(connection), timeout=CLEANUP_TIMEOUT)
                raise

    async def _put_back(self, connection: Connection) -> None:
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


@define(eq=False)
class _Turn:
    """Has a connection for as long as its context lasts."""

    _connections: PooledConnections
    _connection: Connection = field(init=False)

    async def __aenter__(self) -> Connection:
        with TranslatedErrors():
            self._connection = await self._connections.take()
        return self._connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:  # for every row, so without the cost of a task
            await self._connections.give_back(self._connection)
            return
        # Its server may be a standby by now, or have no memory left for this session: a new one may lead further.
        if isinstance(error, DatabaseUnavailable):
            self._connection.pgconn.finish()
        await uninterrupted(self._connections.give_back(self._connection), timeout=CLEANUP_TIMEOUT)
