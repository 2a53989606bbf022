"""What every `RecordingStorage` must show."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import timedelta
from uuid import UUID

import pytest
from messenger_jobs.application.ports.recording_storage import RecordingStorage
from messenger_jobs.domain.evidence import (
    Empty,
    Evidence,
    Found,
    Missing,
    RecordingFormat,
    Unsupported,
)

from tests.support.media_files import (
    DURATION,
    FRAGMENTED,
    HEADER_FIRST,
    LIVE,
    TOLERANCE,
    MediaFile,
    cooked,
    media_file,
)

KEY = "calls/2026/11/recording.ogg"
ID_OF_KEY = UUID("eab24d96-3737-5ff8-9e9e-104c4febf9c2")
OGG = media_file(RecordingFormat.OGG)


class RecordingStorageHarness(ABC):
    storage: RecordingStorage

    @abstractmethod
    async def put(
        self, object_key: str, content: bytes, content_type: str, metadata: Mapping[str, str]
    ) -> None:
        """Store an object."""

    async def look_at(self, file: MediaFile, **metadata: str) -> Evidence:
        """Store it and ask for it; underscores in the metadata's names stand for hyphens."""
        given = {name.replace("_", "-"): value for name, value in metadata.items()}
        await self.put(KEY, file.content, file.content_type, given)
        return await self.storage.look(KEY)


def found(evidence: Evidence) -> Found:
    assert isinstance(evidence, Found)
    return evidence


class RecordingStorageContract:
    """Every answer is evidence, and none says more than storage did."""

    @pytest.fixture
    async def harness(self) -> RecordingStorageHarness:
        raise NotImplementedError("an adapter's subclass says what its harness is")

    @pytest.mark.parametrize("format", RecordingFormat)
    async def test_recording_is_found_with_its_size_format_and_duration(
        self, harness: RecordingStorageHarness, format: RecordingFormat
    ) -> None:
        file = media_file(format)
        evidence = found(await harness.look_at(file))
        assert (evidence.format, evidence.size_bytes) == (format, len(file.content))
        assert evidence.stated_duration is None
        assert evidence.measured_duration is not None
        assert DURATION <= evidence.measured_duration <= DURATION + TOLERANCE

    async def test_header_at_the_start_serves_as_well_as_at_the_end(
        self, harness: RecordingStorageHarness
    ) -> None:
        assert found(await harness.look_at(cooked(HEADER_FIRST))).measured_duration == DURATION

    @pytest.mark.parametrize("recipe", [FRAGMENTED, LIVE], ids=["fragmented", "live"])
    async def test_recording_whose_header_states_no_duration_is_found_without_one(
        self, harness: RecordingStorageHarness, recipe: object
    ) -> None:
        file = cooked(FRAGMENTED if recipe is FRAGMENTED else LIVE)
        assert found(await harness.look_at(file)).measured_duration is None

    async def test_key_that_is_not_there_is_missing(self, harness: RecordingStorageHarness) -> None:
        await harness.look_at(OGG)
        for key in ("calls/2026/11/other.ogg", "calls/2026", "recording.ogg", f"{KEY}/more"):
            assert await harness.storage.look(key) == Missing()

    @pytest.mark.parametrize("content_type", ["audio/ogg", "binary/octet-stream"])
    async def test_object_without_bytes_is_empty(
        self, harness: RecordingStorageHarness, content_type: str
    ) -> None:
        assert await harness.look_at(MediaFile(b"", content_type)) == Empty()

    @pytest.mark.parametrize("content_type", ["binary/octet-stream", "text/html", "audio/aac", "ogg"])
    async def test_content_type_of_no_recording_is_not_supported(
        self, harness: RecordingStorageHarness, content_type: str
    ) -> None:
        evidence = await harness.look_at(MediaFile(OGG.content, content_type))
        assert evidence == Unsupported(code="UNKNOWN_CONTENT_TYPE")

    @pytest.mark.parametrize(
        "content_type", ["audio/ogg; codecs=opus", "Audio/OGG", "video/ogg", "audio/ogg;codecs=opus "]
    )
    async def test_content_type_is_known_in_every_spelling(
        self, harness: RecordingStorageHarness, content_type: str
    ) -> None:
        assert found(await harness.look_at(MediaFile(OGG.content, content_type))).format == "Ogg"

    @pytest.mark.parametrize("format", [format for format in RecordingFormat if format != "Ogg"])
    async def test_bytes_that_contradict_the_content_type_are_not_supported(
        self, harness: RecordingStorageHarness, format: RecordingFormat
    ) -> None:
        stated = media_file(format).content_type
        for content in (OGG.content, b"<html>no</html>", b"\0", b"O"):
            evidence = await harness.look_at(MediaFile(content, stated))
            assert evidence == Unsupported(code="CONTENT_MISMATCH")

    @pytest.mark.parametrize("name", ["duration-seconds", "Duration-Seconds", "DURATION-SECONDS"])
    async def test_duration_in_the_metadata_is_passed_on_in_any_case(
        self, harness: RecordingStorageHarness, name: str
    ) -> None:
        assert found(await harness.look_at(OGG, **{name: "12.25"})).stated_duration == timedelta(
            seconds=12.25
        )

    async def test_duration_in_the_metadata_that_lies_is_passed_on_beside_the_measured_one(
        self, harness: RecordingStorageHarness
    ) -> None:
        for lie in (-5, 0, 86_400_000):
            evidence = found(await harness.look_at(OGG, duration_seconds=f"{lie}"))
            assert evidence.stated_duration == timedelta(seconds=lie)
            assert evidence.measured_duration == DURATION

    @pytest.mark.parametrize("text", ["", "three", "3 s", "nan", "inf", "1e300", "0x10"])
    async def test_duration_in_the_metadata_that_is_no_number_is_none(
        self, harness: RecordingStorageHarness, text: str
    ) -> None:
        assert found(await harness.look_at(OGG, duration_seconds=text)).stated_duration is None

    @pytest.mark.parametrize("name", ["file-id", "File-ID"])
    async def test_file_id_in_the_metadata_is_taken_in_any_case(
        self, harness: RecordingStorageHarness, name: str
    ) -> None:
        id = "0f9fd2a0-5c0e-4e83-9a3b-5b8f6f6c7a10"
        assert found(await harness.look_at(OGG, **{name: id})).file_id == UUID(id)

    async def test_file_id_without_a_usable_one_in_the_metadata_follows_from_the_key_alone(
        self, harness: RecordingStorageHarness
    ) -> None:
        """It is stored and published, so it may never change, not even between adapters or releases."""
        assert found(await harness.look_at(OGG)).file_id == ID_OF_KEY
        assert found(await harness.look_at(OGG, file_id="recording 7")).file_id == ID_OF_KEY
        assert found(await harness.look_at(media_file(RecordingFormat.WAV))).file_id == ID_OF_KEY
        await harness.put("other.ogg", OGG.content, OGG.content_type, {})
        assert found(await harness.storage.look("other.ogg")).file_id != ID_OF_KEY

    @pytest.mark.parametrize("format", RecordingFormat)
    async def test_recording_that_was_cut_off_is_judged_all_the_same(
        self, harness: RecordingStorageHarness, format: RecordingFormat
    ) -> None:
        file = media_file(format)
        size = len(file.content)
        for kept in (1, 3, 11, 30, 100, size // 2, size - 1):
            evidence = await harness.look_at(MediaFile(file.content[:kept], file.content_type))
            if isinstance(evidence, Found):
                assert evidence.size_bytes == kept
            else:
                assert evidence == Unsupported(code="CONTENT_MISMATCH")

    @pytest.mark.parametrize("key", ["a b/+ü?#%41&=.ogg", "calls/'\"\\.ogg", "~!@$*().ogg", "k" * 200])
    async def test_key_of_unusual_characters_names_its_object(
        self, harness: RecordingStorageHarness, key: str
    ) -> None:
        await harness.put(key, OGG.content, OGG.content_type, {})
        found(await harness.storage.look(key))

    @pytest.mark.parametrize("key", ["", ".", "..", "../recording.ogg", "calls/../recording.ogg", "calls/."])
    async def test_key_that_leads_elsewhere_is_none(self, harness: RecordingStorageHarness, key: str) -> None:
        assert await harness.storage.look(key) == Unsupported(code="INVALID_OBJECT_KEY")

    async def test_answer_is_the_same_at_every_look_and_for_everybody_who_looks_at_once(
        self, harness: RecordingStorageHarness
    ) -> None:
        first = found(await harness.look_at(media_file(RecordingFormat.MP4), duration_seconds="3"))
        answers = await asyncio.gather(*(harness.storage.look(KEY) for _ in range(30)))
        assert all(answer == first for answer in answers)

    async def test_cancelled_look_is_cancelled_and_harms_no_other(
        self, harness: RecordingStorageHarness
    ) -> None:
        first = await harness.look_at(OGG)
        for turns in range(5):
            looking = asyncio.create_task(harness.storage.look(KEY))
            for _ in range(turns):
                await asyncio.sleep(0)
            if looking.cancel():
                with pytest.raises(asyncio.CancelledError):
                    await looking
        assert await harness.storage.look(KEY) == first
