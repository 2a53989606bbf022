from __future__ import annotations

import asyncio
import os
import stat
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest
from messenger_jobs.adapters.local import recording_storage
from messenger_jobs.adapters.local.recording_storage import FolderRecordingStorage
from messenger_jobs.domain.evidence import (
    Evidence,
    Found,
    Missing,
    RecordingFormat,
    StorageMisconfigured,
    Unreachable,
    Unsupported,
)

from tests.support.media_files import media_file

OGG = media_file(RecordingFormat.OGG).content
INVALID = Unsupported(code="INVALID_OBJECT_KEY")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "recordings"
    folder.mkdir()
    (tmp_path / "secret.ogg").write_bytes(OGG)
    return folder


@pytest.fixture
def storage(folder: Path) -> FolderRecordingStorage:
    return FolderRecordingStorage(folder)


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("recording.mp4", RecordingFormat.MP4),
        ("recording.m4a", RecordingFormat.M4A),
        ("recording.webm", RecordingFormat.WEBM),
        ("recording.ogg", RecordingFormat.OGG),
        ("recording.OPUS", RecordingFormat.OGG),
        ("recording.mp3", RecordingFormat.MP3),
        ("recording.wav", RecordingFormat.WAV),
    ],
)
async def test_ending_stands_for_the_content_type(
    folder: Path, storage: FolderRecordingStorage, name: str, format: RecordingFormat
) -> None:
    (folder / name).write_bytes(media_file(format).content)
    evidence = await storage.look(name)
    assert isinstance(evidence, Found)
    assert evidence.format == format


async def test_ending_of_no_recording_is_no_content_type(
    folder: Path, storage: FolderRecordingStorage
) -> None:
    (folder / "recording").write_bytes(OGG)
    assert await storage.look("recording") == Unsupported(code="UNKNOWN_CONTENT_TYPE")


async def test_description_beside_the_file_goes_before_the_ending(
    folder: Path, storage: FolderRecordingStorage
) -> None:
    (folder / "recording.mp3").write_bytes(OGG)
    (folder / "recording.mp3.json").write_text('{"content-type": "audio/ogg"}')
    assert isinstance(await storage.look("recording.mp3"), Found)


async def test_description_may_hold_metadata_alone(folder: Path, storage: FolderRecordingStorage) -> None:
    (folder / "a.ogg").write_bytes(OGG)
    id = "0f9fd2a0-5c0e-4e83-9a3b-5b8f6f6c7a10"
    (folder / "a.ogg.json").write_text('{"metadata": {"file-id": "%s", "duration-seconds": 7}}' % id)  # noqa: UP031
    evidence = await storage.look("a.ogg")
    assert isinstance(evidence, Found)
    assert (evidence.file_id, evidence.stated_duration) == (UUID(id), timedelta(seconds=7))


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "7", "null", '{"metadata": 7}', '{"metadata": [1]}', "\\xff"]
)
async def test_broken_description_is_told(folder: Path, storage: FolderRecordingStorage, text: str) -> None:
    (folder / "a.ogg").write_bytes(OGG)
    (folder / "a.ogg.json").write_bytes(text.encode().decode("unicode_escape").encode("latin-1"))
    assert await storage.look("a.ogg") == Unsupported(code="UNREADABLE_METADATA")


@pytest.mark.parametrize("key", ["/etc/hostname", "a\0b", "../secret.ogg", "calls/../../secret.ogg"])
async def test_key_does_not_lead_out_of_the_folder(storage: FolderRecordingStorage, key: str) -> None:
    assert await storage.look(key) == INVALID


async def test_absolute_key_does_not_lead_out_of_the_folder(
    folder: Path, storage: FolderRecordingStorage
) -> None:
    assert await storage.look(f"{folder.parent / 'secret.ogg'}") == INVALID


async def test_link_does_not_lead_out_of_the_folder(folder: Path, storage: FolderRecordingStorage) -> None:
    (folder / "link.ogg").symlink_to(folder.parent / "secret.ogg")
    (folder / "up").symlink_to(folder.parent)
    assert await storage.look("link.ogg") == INVALID
    assert await storage.look("up/secret.ogg") == INVALID


async def test_link_within_the_folder_is_followed(folder: Path, storage: FolderRecordingStorage) -> None:
    (folder / "real.ogg").write_bytes(OGG)
    (folder / "link.ogg").symlink_to("real.ogg")
    assert isinstance(await storage.look("link.ogg"), Found)


async def test_folder_may_be_a_link_itself(folder: Path) -> None:
    (folder / "a.ogg").write_bytes(OGG)
    link = folder.parent / "link"
    link.symlink_to(folder)
    assert isinstance(await FolderRecordingStorage(link).look("a.ogg"), Found)


async def test_what_is_no_file_is_missing(folder: Path, storage: FolderRecordingStorage) -> None:
    (folder / "folder.ogg").mkdir()
    os.mkfifo(folder / "pipe.ogg")
    (folder / "dangling.ogg").symlink_to("nothing.ogg")
    for key in ("folder.ogg", "pipe.ogg", "dangling.ogg"):
        assert await storage.look(key) == Missing()


async def test_key_too_long_for_a_file_is_none(storage: FolderRecordingStorage) -> None:
    assert await storage.look("k" * 300) == INVALID


async def test_missing_folder_is_no_missing_recording(folder: Path) -> None:
    elsewhere = FolderRecordingStorage(folder / "nothing")
    assert await elsewhere.look("a.ogg") == StorageMisconfigured(code="NO_SUCH_FOLDER")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
async def test_unreadable_file_is_no_missing_recording(folder: Path, storage: FolderRecordingStorage) -> None:
    (folder / "a.ogg").write_bytes(OGG)
    (folder / "a.ogg").chmod(stat.S_IWUSR)
    assert await storage.look("a.ogg") == StorageMisconfigured(code="ACCESS_DENIED")


async def test_file_system_that_fails_says_nothing_about_the_recording(
    folder: Path, storage: FolderRecordingStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(stored: object) -> Evidence:
        raise OSError(5, "Input/output error")

    (folder / "a.ogg").write_bytes(OGG)
    monkeypatch.setattr(recording_storage, "examine", fail)
    assert await storage.look("a.ogg") == Unreachable(code="FILE_UNREADABLE", connection_failed=False)


async def test_file_system_that_hangs_is_not_waited_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, resumed = asyncio.get_running_loop(), asyncio.Event()

    def hang(stored: object) -> Evidence:
        asyncio.run_coroutine_threadsafe(resumed.wait(), loop).result(timeout=10)
        return Missing()

    (folder / "a.ogg").write_bytes(OGG)
    monkeypatch.setattr(recording_storage, "examine", hang)
    storage = FolderRecordingStorage(folder, storage_timeout=timedelta(milliseconds=50))
    try:
        assert await storage.look("a.ogg") == Unreachable(code="TIMED_OUT", connection_failed=True)
    finally:
        resumed.set()
