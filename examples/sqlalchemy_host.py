"""A host on SQLAlchemy's async engine lends the connection of its own transaction.

SQLAlchemy opens a transaction with its first statement, and commits it at the end of ``engine.begin()``.
`HostTransaction` joins it, also when the connection is lent before that first statement.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, cast
from uuid import UUID, uuid4

import psycopg
from messenger_jobs.adapters.postgres import HostTransaction, PostgresFinalizationStore
from messenger_jobs.adapters.system import SystemClock
from messenger_jobs.application import OpenFinalization
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine


async def lent(connection: AsyncConnection) -> HostTransaction:
    """The psycopg connection under SQLAlchemy's, which must not be used at the same time."""
    raw = await connection.get_raw_connection()
    return HostTransaction(cast("psycopg.AsyncConnection[Any]", raw.driver_connection))


async def end_session(engine: AsyncEngine, recording_id: UUID, *, ended_at: datetime) -> bool:
    """Note that the call is over, and see to it that its recording is finished: both, or neither.

    False when its finalization was open already. Raises `LookupError` when there is no such recording.
    """
    async with engine.begin() as connection:
        store = PostgresFinalizationStore(await lent(connection))
        open_finalization = OpenFinalization(store=store, clock=SystemClock(), new_id=uuid4)
        opened = await open_finalization(recording_id)
        await connection.execute(
            text("update messenger.call_recordings set session_ended_at = :at where id = :id"),
            {"at": ended_at, "id": recording_id},
        )
    return opened
