"""Storage that is down for longer than all attempts of a row would last, with a thousand recordings due."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

import pytest
from attrs import define
from messenger_jobs.adapters.s3.recording_storage import S3RecordingStorage
from messenger_jobs.application.cycle_report import Outcome
from messenger_jobs.application.ports.recording_storage import RecordingStorage
from messenger_jobs.application.stop_signal import StopSignal
from messenger_jobs.application.storage_guard import CONNECTION_FAILURE_THRESHOLD
from messenger_jobs.domain.evidence import Evidence, RecordingFormat
from messenger_jobs.entrypoints.bootstrap import bootstrap
from messenger_jobs.entrypoints.settings import load_settings

from tests.e2e.recordings import JOB, Recordings
from tests.support.media_files import media_file
from tests.support.recordings import a_recording, an_entry
from tests.support.s3_servers import owned
from tests.support.seaweed_server import SeaweedServer

DUE = 1_000
CYCLES = 10  # more than the eight attempts of a row

_SUMMARY = """
select e.status, e.attempts, r.status, count(*)::int
from messenger.recording_finalize_attempts e join messenger.call_recordings r on r.id = e.recording_id
group by 1, 2, 3
"""


@define
class CountedLooks:
    """Counts how often the storage is asked."""

    storage: RecordingStorage
    number: int = 0

    async def look(self, object_key: str) -> Evidence:
        self.number += 1
        return await self.storage.look(object_key)


def put_due(recordings: Recordings) -> None:
    """All of them point to one object: what matters is that every one is asked for."""
    now = datetime.now(UTC)
    media = media_file(RecordingFormat.WEBM)
    recordings.bucket.put("calls/call.webm", media.content, media.content_type)
    due = [a_recording(id=uuid4(), object_key="calls/call.webm", updated_at=now) for _ in range(DUE)]
    entries = [
        an_entry(id=uuid4(), recording_id=recording.id, next_attempt_at=now, created_at=now)
        for recording in due
    ]
    recordings.store(*due, *entries)


@pytest.mark.parametrize("concurrency", [8])
async def test_long_outage_costs_few_calls_and_no_attempt_of_any_row(
    database_url: str, own_s3_server: SeaweedServer, concurrency: int
) -> None:
    with owned(own_s3_server).new_bucket() as bucket:
        recordings = Recordings(database_url, bucket)
        put_due(recordings)
        variables = recordings.settings(CONCURRENCY=concurrency) | {"MESSENGER_DATABASE_URL": database_url}
        settings = load_settings(variables)
        options = settings.recording_finalize_retry
        async with (
            S3RecordingStorage(
                **bucket.access(), threads=concurrency, storage_timeout=options.storage_timeout
            ) as storage,
            bootstrap(settings, storage=(counted := CountedLooks(storage))) as application,
        ):
            job = application.jobs[JOB]
            own_s3_server.kill()
            for _ in range(CYCLES):
                counted.number = 0
                report = await job.run(StopSignal())
                assert report.counts.keys() == {Outcome.RELEASED, Outcome.SKIPPED}
                assert counted.number <= concurrency + CONNECTION_FAILURE_THRESHOLD
            assert recordings.query(_SUMMARY) == [("Pending", 0, "Uploading", DUE)]

            own_s3_server.start()
            healed = await job.run(StopSignal())

        assert healed.counts == {Outcome.RECONCILED: DUE}
        assert recordings.query(_SUMMARY) == [("Done", 1, "Available", DUE)]
        assert await recordings.audited() == []
