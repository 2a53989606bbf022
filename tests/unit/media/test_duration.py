from __future__ import annotations

import struct
import wave
from datetime import timedelta
from io import BytesIO

import pytest
from messenger_jobs.adapters.media.duration import measured_duration
from messenger_jobs.adapters.media.ranged_file import RangedFile
from messenger_jobs.domain.evidence import RecordingFormat

from tests.support.media_files import DURATION, media_file


def measure(format: RecordingFormat, content: bytes) -> timedelta | None:
    file = RangedFile(len(content), lambda offset, length: content[offset : offset + length])
    return measured_duration(format, file)


def ogg_page(serial: int, position: int, packet: bytes, *, first: bool = False) -> bytes:
    assert len(packet) < 255
    return struct.pack("<4sBBqIIIBB", b"OggS", 0, 2 * first, position, serial, 0, 0, 1, len(packet)) + packet


def vorbis(serial: int, rate: int) -> bytes:
    return ogg_page(serial, 0, b"\x01vorbis" + struct.pack("<IBI", 0, 1, rate), first=True)


def opus(serial: int, skip: int) -> bytes:
    return ogg_page(serial, 0, b"OpusHead\x01\x01" + struct.pack("<HI", skip, 16_000), first=True)


def theora(serial: int) -> bytes:
    return ogg_page(serial, 0, b"\x80theora" + bytes(30), first=True)


class TestOgg:
    def test_vorbis_counts_in_its_own_rate(self) -> None:
        content = vorbis(1, 44_100) + ogg_page(1, 441_000, b"sound")
        assert measure(RecordingFormat.OGG, content) == timedelta(seconds=10)

    def test_opus_counts_in_its_fixed_rate_without_what_is_skipped(self) -> None:
        content = opus(1, skip=48_000) + ogg_page(1, 480_000, b"sound")
        assert measure(RecordingFormat.OGG, content) == timedelta(seconds=9)

    def test_sound_of_a_video_is_measured_whatever_its_pictures_say(self) -> None:
        content = theora(1) + vorbis(2, 8_000) + ogg_page(2, 80_000, b"sound") + ogg_page(1, 7, b"picture")
        assert measure(RecordingFormat.OGG, content) == timedelta(seconds=10)

    def test_page_in_which_no_packet_ends_has_no_position(self) -> None:
        content = vorbis(1, 8_000) + ogg_page(1, 80_000, b"sound") + ogg_page(1, -1, b"sound")
        assert measure(RecordingFormat.OGG, content) == timedelta(seconds=10)

    def test_last_sound_ahead_of_much_else_is_found(self) -> None:
        picture = ogg_page(1, 7, bytes(200))
        content = theora(1) + vorbis(2, 8_000) + ogg_page(2, 80_000, b"sound") + picture * 300
        assert measure(RecordingFormat.OGG, content) == timedelta(seconds=10)

    @pytest.mark.parametrize(
        "content",
        [
            theora(1) + ogg_page(1, 80_000, b"picture"),
            vorbis(1, 0) + ogg_page(1, 80_000, b"sound"),
            vorbis(1, 8_000),
            vorbis(1, 8_000) + ogg_page(2, 80_000, b"sound"),
            opus(1, skip=9_000) + ogg_page(1, 8_000, b"sound"),
        ],
        ids=["no sound", "no rate", "no position", "of another stream", "all skipped"],
    )
    def test_without_a_usable_position_there_is_no_duration(self, content: bytes) -> None:
        assert measure(RecordingFormat.OGG, content) is None


class TestWebM:
    HEADER = b"\x1a\x45\xdf\xa3\x87\x42\x82\x84webm"
    SEGMENT = b"\x18\x53\x80\x67\x01\xff\xff\xff\xff\xff\xff\xff"  # of unknown size
    VOID = b"\xec\x85-----"

    @staticmethod
    def info(*elements: bytes) -> bytes:
        content = b"".join(elements)
        return b"\x15\x49\xa9\x66" + bytes([0x80 | len(content)]) + content

    @staticmethod
    def duration(ticks: float) -> bytes:
        return b"\x44\x89\x88" + struct.pack(">d", ticks)

    def test_ticks_are_milliseconds_unless_said_otherwise(self) -> None:
        content = self.HEADER + self.SEGMENT + self.VOID + self.info(self.duration(1_500))
        assert measure(RecordingFormat.WEBM, content) == timedelta(seconds=1.5)

    def test_scale_is_applied_wherever_it_stands(self) -> None:
        scale = b"\x2a\xd7\xb1\x83\x01\x86\xa0"  # 100,000 nanoseconds
        for elements in ((scale, self.duration(15_000)), (self.duration(15_000), scale)):
            content = self.HEADER + self.SEGMENT + self.info(*elements)
            assert measure(RecordingFormat.WEBM, content) == timedelta(seconds=1.5)

    def test_short_float_is_read_as_well(self) -> None:
        short = b"\x44\x89\x84" + struct.pack(">f", 1_500)
        content = self.HEADER + self.SEGMENT + self.info(short)
        assert measure(RecordingFormat.WEBM, content) == timedelta(seconds=1.5)

    @pytest.mark.parametrize("ticks", [0, -1, float("nan"), float("inf"), 1e300])
    def test_impossible_duration_is_none(self, ticks: float) -> None:
        content = self.HEADER + self.SEGMENT + self.info(self.duration(ticks))
        assert measure(RecordingFormat.WEBM, content) is None

    def test_impossible_scale_is_none(self) -> None:
        scale = b"\x2a\xd7\xb1\x40\x96" + b"\xff" * 150  # more nanoseconds than a float can hold
        elements = scale + self.duration(1.0)
        content = self.HEADER + self.SEGMENT + b"\x15\x49\xa9\x66\x40" + bytes([len(elements)]) + elements
        assert measure(RecordingFormat.WEBM, content) is None

    def test_media_ahead_of_the_header_ends_the_search(self) -> None:
        cluster = b"\x1f\x43\xb6\x75\x85-----"
        content = self.HEADER + self.SEGMENT + cluster + self.info(self.duration(1_500))
        assert measure(RecordingFormat.WEBM, content) is None

    def test_search_among_endless_elements_ends(self) -> None:
        content = self.HEADER + self.SEGMENT + b"\xec\x80" * 100_000 + self.info(self.duration(1_500))
        assert measure(RecordingFormat.WEBM, content) is None


class TestWav:
    def test_duration_follows_from_the_size_of_the_sound(self) -> None:
        file = BytesIO()
        with wave.open(file, "wb") as sound:
            sound.setnchannels(2)
            sound.setsampwidth(2)
            sound.setframerate(8_000)
            sound.writeframes(bytes(8_000 * 4 * 7))
        assert measure(RecordingFormat.WAV, file.getvalue()) == timedelta(seconds=7)


@pytest.mark.parametrize("format", RecordingFormat)
def test_failure_of_the_storage_is_never_taken_for_a_broken_file(format: RecordingFormat) -> None:
    """Whichever read it is that fails, and however the parser takes it."""
    content = media_file(format).content
    # Spread over many blocks, so that there is a second read to fail.
    content = content[: len(content) // 2] + bytes(200_000) + content[len(content) // 2 :]
    for failing in range(6):
        reads = 0

        def read(offset: int, length: int, failing: int = failing) -> bytes:
            nonlocal reads
            reads += 1
            if reads > failing:
                raise TimeoutError
            return content[offset : offset + length]

        file = RangedFile(len(content), read)
        if failing == 0:
            with pytest.raises(TimeoutError):
                measured_duration(format, file)
        else:
            try:
                measured_duration(format, file)
            except TimeoutError:
                assert reads == failing + 1
            else:
                assert reads <= failing


def test_header_that_claims_to_be_huge_is_not_believed() -> None:
    start = media_file(RecordingFormat.MP4).content[:28]
    for size in (b"\xff\xff\xff\xff", b"\x00\x00\x00\x01"):
        huge = start + b"\x00\x00\x01\x00moov" + size + b"mvhd" + b"\x7f" * 8 + bytes(100)
        assert measure(RecordingFormat.MP4, huge) in (None, DURATION)
