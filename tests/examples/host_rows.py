"""What the examples' hosts find in the database, and leave there."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
from messenger_jobs.domain.call_recording import CallRecording, RecordingStatus

from tests.contract.finalization_postgres_harness import columns_of, upsert
from tests.support.recordings import a_recording, an_entry


def query(url: str, statement: Any, *parameters: object) -> list[tuple[Any, ...]]:
    """The statement's rows; what it changes is committed."""
    with psycopg.connect(url) as connection:
        cursor = connection.execute(statement, parameters or None)
        return cursor.fetchall() if cursor.description else []


def an_uploading_recording(url: str, *, opened: bool = True) -> CallRecording:
    """Its session ended an hour ago; `opened` says whether it has a finalize row, which is due."""
    now = datetime.now(UTC)
    id = uuid4()
    recording = a_recording(
        id=id,
        status=RecordingStatus.UPLOADING,
        session_id=uuid4(),
        object_key=f"calls/{id}.webm",
        started_at=now - timedelta(hours=1, seconds=3),
        ended_at=now - timedelta(hours=1),
        session_ended_at=now - timedelta(hours=1),
    )
    entry = an_entry(id=uuid4(), recording_id=id, session_id=recording.session_id, next_attempt_at=now)
    with psycopg.connect(url) as connection:
        for thing in (recording, entry) if opened else (recording,):
            connection.execute(*upsert(*columns_of(thing)))
    return recording


def status_of(url: str, recording_id: UUID) -> str:
    ((status,),) = query(url, "select status from messenger.call_recordings where id = %s", recording_id)
    assert isinstance(status, str)
    return status


def topics(url: str) -> list[str]:
    """Of the messages in the package's own outbox, in their order."""
    return [topic for (topic,) in query(url, "select topic from messenger.outbox_messages order by id")]
