"""Each invariant of the audit, broken by hand in a database that the jobs have worked on."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, LiteralString
from uuid import uuid4

import psycopg
import pytest
from attrs import frozen
from messenger_jobs.adapters.memory.recording_storage import MemoryRecordingStorage
from messenger_jobs.adapters.postgres.audit import INVARIANTS, SAMPLE_SIZE, Finding, audit
from messenger_jobs.application.stop_signal import StopSignal
from messenger_jobs.domain.call_recording import RecordingStatus
from messenger_jobs.domain.evidence import Evidence, Missing, Unreachable, Unsupported
from messenger_jobs.entrypoints.bootstrap import bootstrap
from messenger_jobs.entrypoints.settings import load_settings
from psycopg import AsyncConnection
from psycopg.rows import dict_row

from tests.contract.finalization_postgres_harness import columns_of, upsert
from tests.e2e.rows import Rows
from tests.integration.audit_breaches import BREACHES, Breach
from tests.support.recordings import a_recording, an_entry, found

MAX_ATTEMPTS: Final = 1
MAX_FINALIZE_ATTEMPTS: Final = 3


@frozen
class WorkedOn:
    """A connection to break the database with, and the ids of what stands in it."""

    connection: AsyncConnection
    ids: Mapping[str, object]

    async def execute(self, statement: LiteralString) -> int:
        """How many rows it is about."""
        return (await self.connection.execute(statement, self.ids)).rowcount


@pytest.fixture
async def worked_on(database_url: str) -> AsyncGenerator[WorkedOn]:
    """A database with rows of every end that the jobs know, and a connection to break it with."""
    storage = MemoryRecordingStorage()
    rows = Rows(database_url)
    rows.seed(5, without_members=5)
    ends: Sequence[tuple[RecordingStatus, Evidence]] = (
        (RecordingStatus.UPLOADING, found()),
        (RecordingStatus.UPLOADING, Missing()),
        (RecordingStatus.UPLOADING, Unsupported(code="UNKNOWN_CONTENT_TYPE")),
        (RecordingStatus.UPLOADING, Unreachable(code="HTTP_503", connection_failed=False)),
        (RecordingStatus.AVAILABLE, Missing()),
    )
    now = datetime.now(UTC)
    async with await AsyncConnection.connect(database_url, autocommit=True) as connection:
        for status, evidence in ends:
            recording = a_recording(id=uuid4(), status=status, updated_at=now)
            entry = an_entry(id=uuid4(), recording_id=recording.id, next_attempt_at=now)
            storage.answer(recording.object_key, evidence)
            await connection.execute(*upsert(*columns_of(recording)))
            await connection.execute(*upsert(*columns_of(entry)))
        await work(database_url, storage)
        await connection.execute("set session_replication_role = replica")  # no foreign key is in the way
        yield WorkedOn(connection, await some_ids(connection))


async def some_ids(connection: AsyncConnection) -> dict[str, object]:
    """The ids that breaches are about, each in the type that most of its columns have."""
    cursor = connection.cursor(row_factory=dict_row)
    await cursor.execute(
        """
        select p.id as provision, p.deal_id::text as deal, p.chat_id as chat,
            (select payload->>'recordingId' from messenger.outbox_messages where aggregate_type = 'CallRecording'
                order by id limit 1) as found,
            (select id::text from messenger.call_recordings where status = 'Failed') as lost
        from messenger.deal_chat_provisions p where p.status = 'Ready' limit 1
        """
    )
    (ids,) = await cursor.fetchall()
    return ids


async def work(database_url: str, storage: MemoryRecordingStorage) -> None:
    """One cycle of each job, which is the last chance of the deal without members."""
    settings = load_settings(
        {
            "MESSENGER_DATABASE_URL": database_url,
            "MESSENGER_RECORDINGS_ENABLED": "true",
            "MESSENGER_CHAT_PROVISION_RETRY_MAX_ATTEMPTS": str(MAX_ATTEMPTS),
            **{
                f"MESSENGER_S3_{name}": "unused"
                for name in ("ENDPOINT", "ACCESS_KEY", "SECRET_KEY", "BUCKET_CALL_RECORDINGS")
            },
        }
    )
    async with bootstrap(settings, storage=storage) as application:
        for job in application.jobs.values():
            await job.run(StopSignal())


async def audited(connection: AsyncConnection) -> dict[str, Finding]:
    findings = await audit(
        connection,
        max_attempts=MAX_ATTEMPTS,
        max_finalize_attempts=MAX_FINALIZE_ATTEMPTS,
        since=datetime.now(UTC) - timedelta(days=1),
    )
    assert [finding.claim for finding in findings] == [invariant.claim for invariant in INVARIANTS]
    return {finding.claim: finding for finding in findings if finding.violations}


async def test_database_that_the_jobs_have_worked_on_is_clean(worked_on: WorkedOn) -> None:
    cursor = await worked_on.connection.execute(
        "select status, count(*)::int from messenger.deal_chat_provisions group by 1"
        " union all select r.status || e.status, count(*) from messenger.call_recordings r"
        " join messenger.recording_finalize_attempts e on e.recording_id = r.id group by 1 order by 1"
    )

    assert await cursor.fetchall() == [
        ("AvailableDone", 2),
        ("Failed", 1),
        ("FailedDone", 1),
        ("Ready", 4),
        ("UploadingPending", 1),
        ("UploadingQuarantined", 1),
    ]
    assert await audited(worked_on.connection) == {}


async def test_empty_database_is_clean(database_url: str) -> None:
    async with await AsyncConnection.connect(database_url, autocommit=True) as connection:
        assert await audited(connection) == {}


@pytest.mark.parametrize("breach", BREACHES, ids=lambda breach: f"{breach.claim}: {breach.how}")
async def test_breach_is_found_and_named_and_nothing_else(worked_on: WorkedOn, breach: Breach) -> None:
    for statement in breach.statements:
        assert await worked_on.execute(statement), statement

    found = await audited(worked_on.connection)

    assert list(found) == [breach.claim]
    assert found[breach.claim].violations == 1
    assert len(found[breach.claim].sample) == 1


def test_every_invariant_is_broken_here() -> None:
    assert {breach.claim for breach in BREACHES} == {invariant.claim for invariant in INVARIANTS}


async def test_many_breaches_are_counted_and_a_few_are_named(worked_on: WorkedOn) -> None:
    await worked_on.execute(
        "insert into messenger.deal_chat_provisions (id, deal_id, title, status, attempts, next_attempt_at, created_at,"
        " updated_at) select gen_random_uuid(), gen_random_uuid(), 'Flat', 'Provisioning', 9, now(), now(), now()"
        " from generate_series(1, 12)"
    )

    (finding,) = (await audited(worked_on.connection)).values()

    assert (finding.violations, len(finding.sample)) == (12, SAMPLE_SIZE)


async def test_what_is_older_than_the_outbox_remembers_is_not_held_against_it(
    worked_on: WorkedOn,
) -> None:
    """Published messages are pruned."""
    await worked_on.execute("delete from messenger.outbox_messages")
    await worked_on.execute("delete from messenger.realtime_outbox")
    await worked_on.execute(
        "update messenger.deal_chat_provisions set updated_at = now() - interval '2 days'"
    )
    await worked_on.execute("update messenger.call_recordings set updated_at = now() - interval '2 days'")

    assert await audited(worked_on.connection) == {}


async def test_audit_can_write_nothing(worked_on: WorkedOn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "messenger_jobs.adapters.postgres.audit.INVARIANTS",
        (type(INVARIANTS[0])("it reads", "delete from messenger.realtime_outbox returning id::text"),),
    )

    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        await audit(worked_on.connection, max_attempts=1, since=datetime.now(UTC))
