"""A connection whose server can stop answering without stopping us."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, ClassVar, Final, TypeVar

import psycopg
from psycopg import AsyncConnection
from psycopg.abc import RV, PQGen
from psycopg.rows import TupleRow

from .uninterrupted import uninterrupted

CONNECT_TIMEOUT: Final = 5
"""Seconds for a connection to each of the addresses that a host name stands for."""

C = TypeVar("C", bound=AsyncConnection[Any])


class BoundedConnection(AsyncConnection[TupleRow]):
    """Waits at most ``answer_timeout`` seconds for each answer: of BEGIN, of every statement, of COMMIT.

    An answer that is late raises an `OperationalError` and leaves the connection in the middle of the statement: it can
    only be closed then.
    """

    answer_timeout: ClassVar[float] = 15.0

    async def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
        """As in psycopg, with a bound where the caller gives none."""
        return await super().wait(gen, interval, self.answer_timeout if timeout is None else timeout)


async def connect(kind: type[C], conninfo: str, **kwargs: Any) -> C:
    """A new connection; when cancelled, none is left.

    psycopg by itself leaves a half-made connection open until it is collected as garbage. Here the cancellation waits
    until the connection is made, or has failed, and closes it. Raises psycopg's errors as they are.
    """
    connecting = asyncio.create_task(kind.connect(conninfo, **kwargs))
    try:
        return await asyncio.shield(connecting)
    except asyncio.CancelledError:
        await uninterrupted(_close(connecting), timeout=2 * CONNECT_TIMEOUT)
        raise


async def _close(connecting: asyncio.Task[C]) -> None:
    with suppress(psycopg.Error):
        await (await connecting).close()
