"""Recordings of a real database and a real bucket: put there and looked at."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID, uuid4

import psycopg
from attrs import evolve, frozen
from messenger_jobs.adapters.postgres.audit import audit
from messenger_jobs.domain.call_recording import CallRecording, RecordingStatus
from messenger_jobs.domain.evidence import RecordingFormat
from messenger_jobs.domain.recording_finalize import FinalizeStatus, RecordingFinalize

from tests.contract.finalization_postgres_harness import columns_of, upsert
from tests.support.media_files import SECONDS, media_file
from tests.support.recordings import a_recording, an_entry
from tests.support.s3_servers import Bucket

JOB: Final = "recording-finalize-retry"
PREFIX: Final = "MESSENGER_RECORDING_FINALIZE_RETRY_"

_STATE: Final = """
select r.status, r.failure_reason, r.file_id is not null, r.duration_seconds, e.status, e.attempts, e.last_error,
    (select count(*) from messenger.outbox_messages o where o.payload->>'recordingId' = r.id::text),
    array(select kind::text from messenger.realtime_outbox n where n.reference_id = r.id)
from messenger.call_recordings r join messenger.recording_finalize_attempts e on e.recording_id = r.id
where r.id = %s
"""


@frozen
class State:
    """What there is of one recording, in all tables."""

    status: str
    failure_reason: str | None
    has_file: bool
    duration_seconds: int | None
    entry: str
    attempts: int
    last_error: str | None
    messages: int
    told: list[str]

    @property
    def available(self) -> bool:
        return (self.status, self.has_file, self.entry, self.messages, self.told) == (
            *("Available", True, "Done", 1),
            ["RecordingAvailable"],
        )

    @property
    def lost(self) -> bool:
        return (self.status, self.failure_reason, self.entry, self.messages, self.told) == (
            *("Failed", "Timeout", "Done", 0),
            ["RecordingFailed"],
        )

    @property
    def unfinished(self) -> bool:
        return (self.status, self.has_file, self.messages, self.told) == ("Uploading", False, 0, [])


@frozen
class Recordings:
    """The database and the bucket of a test."""

    url: str
    bucket: Bucket

    def settings(self, **different: object) -> dict[str, str]:
        """The environment of a process, without the database's URL; options of the job without its prefix."""
        access = self.bucket.access()
        given = {
            name if name.startswith("MESSENGER_") else PREFIX + name: str(value)
            for name, value in different.items()
        }
        return {
            "MESSENGER_RECORDINGS_ENABLED": "true",
            "MESSENGER_S3_ENDPOINT": access["endpoint"],
            "MESSENGER_S3_ACCESS_KEY": access["access_key"],
            "MESSENGER_S3_SECRET_KEY": access["secret_key"],
            "MESSENGER_S3_REGION": access["region"],
            "MESSENGER_S3_SECURE": str(access["secure"]).lower(),
            "MESSENGER_S3_BUCKET_CALL_RECORDINGS": access["bucket"],
            **given,
        }

    def put(
        self,
        *,
        status: RecordingStatus = RecordingStatus.UPLOADING,
        file: bool = True,
        ended: timedelta = timedelta(hours=1),
        entry: Mapping[str, Any] | None = None,
    ) -> UUID:
        """A recording whose session ended so long ago, its intent, and its file; the recording's id."""
        now = datetime.now(UTC)
        id = uuid4()
        ended_at = now - ended
        recording = a_recording(
            id=id,
            status=status,
            session_id=uuid4(),
            object_key=f"calls/{id}.webm",
            started_at=ended_at - timedelta(seconds=SECONDS),
            ended_at=ended_at,
            session_ended_at=ended_at,
            updated_at=now,
        )
        if recording.available_at is not None:
            recording = evolve(recording, available_at=now)
        intent = an_entry(
            id=uuid4(), recording_id=id, session_id=recording.session_id, next_attempt_at=now, created_at=now
        )
        self.store(recording, evolve(intent, **(entry or {})))
        if file:
            media = media_file(RecordingFormat.WEBM)
            self.bucket.put(recording.object_key, media.content, media.content_type)
        return id

    def store(self, *things: CallRecording | RecordingFinalize) -> None:
        with psycopg.connect(self.url) as connection:
            for thing in things:
                connection.execute(*upsert(*columns_of(thing)))

    def state(self, id: UUID) -> State:
        ((row),) = self.query(_STATE, id)
        return State(*row)

    def finished(self) -> bool:
        return not self.query(
            "select from messenger.recording_finalize_attempts where status <> %s", FinalizeStatus.DONE.value
        )

    def let_the_delay_pass(self) -> None:
        """Of every row that waits for its next attempt."""
        with psycopg.connect(self.url) as connection:
            connection.execute(
                "update messenger.recording_finalize_attempts set next_attempt_at = now() where status = 'Pending'"
            )

    def lock_is_held(self) -> bool:
        return bool(
            self.query(
                "select from pg_locks where locktype = 'advisory' and granted"
                " and database = (select oid from pg_database where datname = current_database())"
            )
        )

    @contextmanager
    def held_up(self, id: UUID) -> Iterator[None]:
        """Within, somebody has the recording locked, as a callback has."""
        with psycopg.connect(self.url) as connection:
            connection.execute("select from messenger.call_recordings where id = %s for update", (id,))
            yield

    def violations(self, *, max_attempts: int = 8) -> list[str]:
        """What must never happen and did."""
        return asyncio.run(self.audited(max_attempts=max_attempts))

    async def audited(self, *, max_attempts: int = 8) -> list[str]:
        """The same where there is an event loop."""
        since = datetime.now(UTC) - timedelta(days=1)
        async with await psycopg.AsyncConnection.connect(self.url) as connection:
            found = await audit(connection, max_attempts=max_attempts, since=since)
        return [f"{finding.claim}: {finding.sample}" for finding in found if finding.violations]

    def query(self, statement: Any, *parameters: object) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            return connection.execute(statement, parameters or None).fetchall()
