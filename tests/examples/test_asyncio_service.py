from __future__ import annotations

import asyncio

from messenger_jobs.adapters.s3 import S3RecordingStorage
from messenger_jobs.application import RecordingFormat, StopSignal
from messenger_jobs.application.integration_events import (
    CALL_RECORDING_AVAILABLE_TOPIC,
    DEAL_CHAT_STATUS_CHANGED_TOPIC,
)
from psycopg_pool import AsyncConnectionPool

from examples.asyncio_service import run_jobs
from tests.e2e.rows import Rows
from tests.examples.host_rows import an_uploading_recording, status_of, topics
from tests.support.eventually import eventually
from tests.support.media_files import media_file
from tests.support.s3_servers import Bucket


async def test_service_finishes_chats_and_recordings_beside_its_own_work_and_stops_when_asked(
    database_url: str, bucket: Bucket
) -> None:
    rows = Rows(database_url)
    rows.seed(3)
    recording = an_uploading_recording(database_url)
    media = media_file(RecordingFormat.WEBM)
    bucket.put(recording.object_key, media.content, media.content_type)
    storage = S3RecordingStorage(**bucket.access())
    stop = StopSignal()
    async with storage, AsyncConnectionPool(database_url, open=False) as pool:
        running = asyncio.create_task(run_jobs(pool, storage, stop, lock_url=database_url))
        await eventually(
            lambda: rows.count("Ready") == 3 and status_of(database_url, recording.id) == "Available"
        )
        stop.request()
        await running
    assert sorted(topics(database_url)) == [
        CALL_RECORDING_AVAILABLE_TOPIC,
        *[DEAL_CHAT_STATUS_CHANGED_TOPIC] * 3,
    ]
    assert not rows.run_lock_is_held()
