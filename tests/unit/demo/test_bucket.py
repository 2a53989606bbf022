"""The demo's files are what their scenarios say."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from messenger_jobs.adapters.local.recording_storage import FolderRecordingStorage
from messenger_jobs.domain.evidence import (
    Empty,
    Found,
    Missing,
    RecordingFormat,
    StorageMisconfigured,
    Unsupported,
)
from messenger_jobs.entrypoints.demo.bucket import Bucket


@pytest.fixture
def bucket(tmp_path: Path) -> Bucket:
    bucket = Bucket(tmp_path / "bucket")
    bucket.lay_down(
        [
            ("calls/1.wav", "lost callback"),
            ("calls/2.wav", "empty file"),
            ("calls/3.wav", "unknown type"),
        ]
    )
    return bucket


async def test_bucket_does_not_exist_until_it_is_created(bucket: Bucket) -> None:
    storage = FolderRecordingStorage(bucket.folder)

    assert isinstance(await storage.look("calls/1.wav"), StorageMisconfigured)
    bucket.create()
    assert isinstance(await storage.look("calls/1.wav"), Found)


async def test_files_are_what_their_scenarios_say(bucket: Bucket) -> None:
    bucket.create()
    storage = FolderRecordingStorage(bucket.folder)

    sound = await storage.look("calls/1.wav")

    assert isinstance(sound, Found)
    assert (sound.format, sound.measured_duration) == (RecordingFormat.WAV, timedelta(seconds=1))
    assert await storage.look("calls/2.wav") == Empty()
    assert await storage.look("calls/3.wav") == Unsupported(code="UNKNOWN_CONTENT_TYPE")
    assert await storage.look("calls/4.wav") == Missing()
