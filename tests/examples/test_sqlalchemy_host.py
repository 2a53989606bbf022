from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from uuid import uuid4

import pytest
from messenger_jobs.adapters.postgres import PostgresFinalizationStore
from messenger_jobs.adapters.system import SystemClock
from messenger_jobs.application import OpenFinalization
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from examples.sqlalchemy_host import end_session, lent
from tests.examples.host_rows import an_uploading_recording, query

ENTRIES = "select recording_id from messenger.recording_finalize_attempts"


@pytest.fixture
async def engine(database_url: str) -> AsyncGenerator[AsyncEngine]:
    engine = create_async_engine(make_url(database_url).set(drivername="postgresql+psycopg"))
    yield engine
    await engine.dispose()


async def test_end_of_a_session_opens_the_finalization_in_the_same_transaction(
    database_url: str, engine: AsyncEngine
) -> None:
    recording, ended_at = an_uploading_recording(database_url, opened=False), datetime.now(UTC)
    assert await end_session(engine, recording.id, ended_at=ended_at)
    assert query(database_url, ENTRIES) == [(recording.id,)]
    assert query(database_url, "select session_ended_at from messenger.call_recordings") == [(ended_at,)]
    assert not await end_session(engine, recording.id, ended_at=ended_at)
    assert query(database_url, ENTRIES) == [(recording.id,)]


async def test_unknown_recording_leaves_nothing(database_url: str, engine: AsyncEngine) -> None:
    with pytest.raises(LookupError):
        await end_session(engine, uuid4(), ended_at=datetime.now(UTC))
    assert query(database_url, ENTRIES) == []


async def test_rollback_of_the_host_undoes_what_was_done_on_its_connection(
    database_url: str, engine: AsyncEngine
) -> None:
    """Although SQLAlchemy had not opened its transaction yet when the connection was lent."""
    recording = an_uploading_recording(database_url, opened=False)
    async with engine.connect() as connection:
        store = PostgresFinalizationStore(await lent(connection))
        assert await OpenFinalization(store=store, clock=SystemClock(), new_id=uuid4)(recording.id)
        await connection.rollback()
    assert query(database_url, ENTRIES) == []
