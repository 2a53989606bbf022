"""Every storage of recordings keeps the contract."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path

import pytest
from messenger_jobs.adapters.local.recording_storage import FolderRecordingStorage
from messenger_jobs.adapters.memory.recording_storage import MemoryRecordingStorage
from messenger_jobs.adapters.s3.recording_storage import S3RecordingStorage

from tests.contract.recording_storage import RecordingStorageContract, RecordingStorageHarness
from tests.support.s3_servers import Bucket


class MemoryHarness(RecordingStorageHarness):
    def __init__(self) -> None:
        self.storage = self.memory = MemoryRecordingStorage()

    async def put(
        self, object_key: str, content: bytes, content_type: str, metadata: Mapping[str, str]
    ) -> None:
        self.memory.put(object_key, content, content_type=content_type, metadata=metadata)


class FolderHarness(RecordingStorageHarness):
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.storage = FolderRecordingStorage(folder)

    async def put(
        self, object_key: str, content: bytes, content_type: str, metadata: Mapping[str, str]
    ) -> None:
        path = self.folder / object_key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        description = {"content-type": content_type, "metadata": metadata}
        path.with_name(f"{path.name}.json").write_text(json.dumps(description))


class S3Harness(RecordingStorageHarness):
    def __init__(self, storage: S3RecordingStorage, bucket: Bucket) -> None:
        self.storage = storage
        self.bucket = bucket

    async def put(
        self, object_key: str, content: bytes, content_type: str, metadata: Mapping[str, str]
    ) -> None:
        self.bucket.put(object_key, content, content_type, metadata)


class TestMemoryRecordingStorage(RecordingStorageContract):
    @pytest.fixture
    async def harness(self) -> MemoryHarness:
        return MemoryHarness()


class TestFolderRecordingStorage(RecordingStorageContract):
    @pytest.fixture
    async def harness(self, tmp_path: Path) -> FolderHarness:
        return FolderHarness(tmp_path)


class TestS3RecordingStorage(RecordingStorageContract):
    @pytest.fixture
    async def harness(self, module_bucket: Bucket) -> AsyncGenerator[S3Harness]:
        async with S3RecordingStorage(**module_bucket.access()) as storage:
            yield S3Harness(storage, module_bucket)
