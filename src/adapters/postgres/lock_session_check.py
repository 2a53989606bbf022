"""Whether a session lock holds on the lock's connection, or a proxy in front of the server makes it an illusion."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from random import SystemRandom
from typing import Any, Final, LiteralString

import psycopg
from attrs import field, frozen
from psycopg.abc import Params
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ...application.ports.check import CheckedItem, failed, ok
from ...application.ports.errors import PortError
from .bounded_connection import CONNECT_TIMEOUT, BoundedConnection, connect
from .connection_pool import KEEPALIVES
from .errors import TranslatedErrors
from .uninterrupted import uninterrupted

LOCK_SESSION: Final = "lock session"

_ROUNDS: Final = 5
_BUSY: Final = 0.1  # seconds that the other connection keeps a session of the proxy's busy
_HEAD_START: Final = _BUSY / 4  # seconds for it to become busy

_TAKE: Final[LiteralString] = "select pg_backend_pid(), pg_try_advisory_lock(%(space)s, %(key)s)"
_KEEP_BUSY: Final[LiteralString] = "select pg_backend_pid(), pg_sleep(%(seconds)s)"
_GIVE_BACK: Final[LiteralString] = (
    "select case when pg_backend_pid() = %(session)s then pg_advisory_unlock(%(space)s, %(key)s) else false end"
)
# A lock by two numbers has objsubid 2.
_HELD: Final[LiteralString] = """
select pg_backend_pid(), exists (
    select from pg_locks
    where locktype = 'advisory' and granted and pid = pg_backend_pid()
        and database = (select oid from pg_database where datname = current_database())
        and classid::bigint = %(space)s and objid::bigint = %(key)s and objsubid = 2
)
"""
_SPACE: Final = 0x6D6A  # of its own, so that no job's lock is ever taken


@frozen(kw_only=True)
class LockSessionCheck:
    """See `Check`: takes a session lock that nobody else knows, and looks whether it stays while another one works.

    Behind a proxy that pools transactions, the other connection gets the session with the lock, or both share one.
    Leaves no lock behind. ``setting`` is where the lock's address comes from, ``remedy`` what gives it another one.
    """

    lock_url: str = field(repr=False)
    setting: str
    remedy: str

    async def __call__(self) -> Sequence[CheckedItem]:
        """See `Check`."""
        try:
            with TranslatedErrors():
                async with AsyncExitStack() as connections:
                    one, other = await self._connect(connections), await self._connect(connections)
                    stays = await _lock_stays(one, other)
        except PortError as error:
            return [failed(LOCK_SESSION, f"{self.setting}: {error}", error.code)]
        if stays:
            return [ok(LOCK_SESSION, "a lock stays with its session, statement after statement")]
        sentence = (
            "the connection changes its session between statements, as behind a proxy that pools transactions, so that"
            f" a run lock would hold nothing: let {self.remedy} lead to the server itself"
        )
        return [failed(LOCK_SESSION, f"{self.setting}: {sentence}", "LOCK_BEHIND_POOLER")]

    async def _connect(self, connections: AsyncExitStack) -> _Session:
        given = conninfo_to_dict(self.lock_url)
        ours: dict[str, Any] = {"connect_timeout": CONNECT_TIMEOUT, **KEEPALIVES}
        conninfo: dict[str, Any] = {**ours, **given, "application_name": "messenger-jobs check"}
        # Never prepared: a proxy might fail on that, and hide what is asked for here.
        session = await connect(_Session, make_conninfo(**conninfo), autocommit=True, prepare_threshold=None)
        connections.push_async_callback(session.close)  # at once, also in the middle of a statement
        return session


class _Session(BoundedConnection):
    answer_timeout = 5.0

    async def ask(self, statement: LiteralString, parameters: Params) -> tuple[Any, ...]:
        row = await (await self.execute(statement, parameters)).fetchone()
        assert row is not None
        return row


async def _lock_stays(one: _Session, other: _Session) -> bool:
    lock = {"space": _SPACE, "key": SystemRandom().randrange(2**31)}
    session, taken = await one.ask(_TAKE, lock)
    assert taken, "nobody else knows the key"
    try:
        for _ in range(_ROUNDS):
            if not await _still_held(one, other, session, lock):
                return False
        return True
    finally:
        await uninterrupted(_give_back(one, other, session, lock), timeout=2 * _Session.answer_timeout)


async def _still_held(one: _Session, other: _Session, session: int, lock: dict[str, int]) -> bool:
    busy = asyncio.create_task(other.ask(_KEEP_BUSY, {"seconds": _BUSY}))
    try:
        await asyncio.sleep(_HEAD_START)
        answering, held = await one.ask(_HELD, lock)
        others, _ = await busy
    finally:
        busy.cancel()
        await asyncio.wait({busy})
    return bool(held and answering == session and others != session)


async def _give_back(one: _Session, other: _Session, session: int, lock: dict[str, int]) -> None:
    """Through whichever connection leads to the session that has it; it ends with that session in any case."""
    with suppress(psycopg.Error):
        for connection in (one, other) * _ROUNDS:
            (given_back,) = await connection.ask(_GIVE_BACK, {**lock, "session": session})
            if given_back:
                return
