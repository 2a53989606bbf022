"""Run locks as PostgreSQL session advisory locks."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any, Final, LiteralString

import psycopg
import structlog
from attrs import define, field, frozen
from psycopg.abc import Params
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from structlog.typing import FilteringBoundLogger

from ...application.ports.clock import Clock
from ...application.ports.errors import Misconfigured
from .bounded_connection import CONNECT_TIMEOUT, BoundedConnection, connect
from .connection_pool import KEEPALIVES
from .errors import TranslatedErrors
from .uninterrupted import uninterrupted

ANSWER_TIMEOUT: Final = 5.0
"""Seconds that the lock's server has for an answer; a later one counts as *not the holder*."""

# The second time-out is for inside a transaction, where the first one does not fire.
_PREPARE: Final[LiteralString] = """
select pg_backend_pid(),
       set_config('idle_session_timeout', %(ttl)s, false),
       set_config('idle_in_transaction_session_timeout', %(ttl)s, false),
       set_config('statement_timeout', %(answer)s, false)
"""

# Takes the lock only in the session that has the time-outs: behind a transaction pooler it could be another one.
_ACQUIRE: Final[LiteralString] = """
select pg_backend_pid(), case when pg_backend_pid() = %s then pg_try_advisory_lock(%s) end
"""

# A key of 64 bits stands in two halves, with objsubid 1.
_IS_HELD: Final[LiteralString] = """
select exists (
    select from pg_locks
    where locktype = 'advisory' and granted and pid = pg_backend_pid() and pid = %s
        and database = (select oid from pg_database where datname = current_database())
        and classid::bigint = %s and objid::bigint = %s and objsubid = 1
)
"""

_RELEASE: Final[LiteralString] = "select pg_advisory_unlock(%s)"

_MARGIN: Final = 0.1
"""Part of the TTL by which the lease ends on this side before it can end on the server's."""

_log: FilteringBoundLogger = structlog.get_logger("messenger_jobs")


def lock_key(name: str) -> int:
    """The signed 64-bit key of a job's lock: the first 8 bytes, big-endian, of SHA-256 of ``messenger-jobs:<name>``."""
    return int.from_bytes(hashlib.sha256(f"messenger-jobs:{name}".encode()).digest()[:8], "big", signed=True)


@frozen(kw_only=True)
class PostgresRunLocks:
    """Each lock on a connection of its own, outside any pool, named ``messenger-jobs lock <job>`` on the server.

    The server enforces ``ttl``: it ends a session that was idle for that long, which frees the lock whatever became of
    its holder. ``database_url`` must lead to the server itself, or to a proxy that pools whole sessions.
    """

    database_url: str = field(repr=False)
    ttl: timedelta
    clock: Clock

    @asynccontextmanager
    async def try_acquire(self, name: str) -> AsyncGenerator[PostgresRunLease | None]:
        """See `RunLocks.try_acquire`. Releasing takes at most some seconds, also when the server does not answer."""
        with TranslatedErrors():
            connection = await self._connect(name)
        try:
            with TranslatedErrors():
                lease = await self._acquire(connection, name)
            try:
                yield lease
            finally:
                if lease is not None:
                    await uninterrupted(lease.release(), timeout=2 * ANSWER_TIMEOUT)
        finally:
            # At once, and with it goes the lock, whatever was asked of it and not answered.
            await connection.close()

    async def _connect(self, name: str) -> _LockConnection:
        ours = {"connect_timeout": CONNECT_TIMEOUT, **KEEPALIVES}
        given = conninfo_to_dict(self.database_url)
        conninfo: dict[str, Any] = {**ours, **given, "application_name": f"messenger-jobs lock {name}"}
        return await connect(_LockConnection, make_conninfo(**conninfo), autocommit=True)

    async def _acquire(self, connection: _LockConnection, name: str) -> PostgresRunLease | None:
        asked_at = self.clock.monotonic()
        session, *_ = await connection.ask(
            _PREPARE,
            {"ttl": _milliseconds(self.ttl.total_seconds()), "answer": _milliseconds(ANSWER_TIMEOUT)},
        )
        answering, acquired = await connection.ask(_ACQUIRE, (session, lock_key(name)))
        if answering != session:
            raise Misconfigured(
                "LOCK_BEHIND_POOLER",
                "the lock's connection changes its session between statements: "
                "set MESSENGER_LOCK_DATABASE_URL to an address that leads to the server itself",
            )
        if not acquired:
            return None
        return PostgresRunLease(connection, name, session, self.ttl.total_seconds(), self.clock, asked_at)


@define(eq=False)
class PostgresRunLease:
    """See `RunLease`. Any doubt, once, ends it for good."""

    _connection: _LockConnection
    _name: str
    _session: int
    _ttl: float
    _clock: Clock
    _held_since: float  # when the last answer was asked for: the server counts from a later moment
    _lost: bool = field(default=False, init=False)

    @property
    def expired(self) -> bool:
        """See `RunLease.expired`."""
        return self._lost or self._unconfirmed_for >= self._ttl * (1 - _MARGIN)

    @property
    def confirmation_due(self) -> bool:
        """See `RunLease.confirmation_due`."""
        return self._unconfirmed_for >= self._ttl / 2

    async def confirm(self) -> bool:
        """See `RunLease.confirm`. Answers within `ANSWER_TIMEOUT`."""
        if self.expired:
            self._lost = True
            return False
        asked_at = self._clock.monotonic()
        held = False
        try:
            with suppress(psycopg.Error):
                (held,) = await self._connection.ask(
                    _IS_HELD, (self._session, *_halves(lock_key(self._name)))
                )
        finally:  # a cancelled question has no answer either
            if held:
                self._held_since = asked_at
            else:
                self._lost = True
        return held and not self.expired  # an answer that took too long says nothing about now

    async def release(self) -> None:
        """Unlock, so that the next runner need not wait until the server notices the closed connection."""
        if self._lost:
            return
        with suppress(psycopg.Error):
            (was_held,) = await self._connection.ask(_RELEASE, (lock_key(self._name),))
            if not was_held:
                _log.warning("lock lost", job=self._name, noticed="at release")

    @property
    def _unconfirmed_for(self) -> float:
        return self._clock.monotonic() - self._held_since


class _LockConnection(BoundedConnection):
    answer_timeout = ANSWER_TIMEOUT

    async def ask(self, statement: LiteralString, parameters: Params) -> tuple[Any, ...]:
        """The one row of an answer."""
        row = await (await self.execute(statement, parameters)).fetchone()
        assert row is not None
        return row


def _milliseconds(seconds: float) -> str:
    return str(int(seconds * 1000))


def _halves(key: int) -> tuple[int, int]:
    return (key >> 32) & 0xFFFFFFFF, key & 0xFFFFFFFF
