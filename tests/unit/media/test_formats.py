from __future__ import annotations

import pytest
from messenger_jobs.adapters.media.formats import SIGNATURE_LENGTH, format_of, has_signature
from messenger_jobs.domain.evidence import RecordingFormat

from tests.support.media_files import FRAGMENTED, HEADER_FIRST, LIVE, cooked, media_file


@pytest.mark.parametrize(
    ("content_type", "format"),
    [
        ("video/mp4", RecordingFormat.MP4),
        ("audio/mp4", RecordingFormat.M4A),
        ("audio/x-m4a", RecordingFormat.M4A),
        ("audio/webm; codecs=opus", RecordingFormat.WEBM),
        ("video/webm", RecordingFormat.WEBM),
        ("audio/ogg", RecordingFormat.OGG),
        ("video/ogg", RecordingFormat.OGG),
        ("audio/mpeg", RecordingFormat.MP3),
        ("audio/wav", RecordingFormat.WAV),
        ("audio/x-wav", RecordingFormat.WAV),
        (" AUDIO/WAV ", RecordingFormat.WAV),
        ("video/x-matroska", None),
        ("audio", None),
        (";", None),
        ("", None),
        (None, None),
    ],
)
def test_content_type_names_a_format(content_type: str | None, format: RecordingFormat | None) -> None:
    assert format_of(content_type) == format


@pytest.mark.parametrize("format", RecordingFormat)
def test_recording_has_the_signature_of_its_format_and_of_no_other(format: RecordingFormat) -> None:
    start = media_file(format).content[:SIGNATURE_LENGTH]
    alike = {RecordingFormat.MP4, RecordingFormat.M4A}
    expected = alike if format in alike else {format}
    assert {other for other in RecordingFormat if has_signature(other, start)} == expected


@pytest.mark.parametrize(
    ("recipe", "format"),
    [
        (HEADER_FIRST, RecordingFormat.MP4),
        (FRAGMENTED, RecordingFormat.MP4),
        (LIVE, RecordingFormat.WEBM),
    ],
    ids=["header first", "fragmented", "live"],
)
def test_variants_of_a_container_have_its_signature(recipe: object, format: RecordingFormat) -> None:
    variants = {HEADER_FIRST, FRAGMENTED, LIVE}
    file = cooked(next(variant for variant in variants if variant is recipe))
    assert has_signature(format, file.content[:SIGNATURE_LENGTH])


@pytest.mark.parametrize(
    ("format", "start", "expected"),
    [
        (RecordingFormat.MP3, b"\xff\xfb\x90\x00", True),
        (RecordingFormat.MP3, b"\xff\xf3\x90\x00", True),
        (RecordingFormat.MP3, b"\xff\xf1\x50\x80", False),  # AAC
        (RecordingFormat.MP3, b"\xff", False),
        (RecordingFormat.WAV, b"RF64\xff\xff\xff\xffWAVEds64", True),
        (RecordingFormat.WAV, b"RIFF\x00\x00\x00\x00AVI LIST", False),
        (RecordingFormat.WEBM, b"\x1a\x45\xdf\xa3\x8b\x42\x82\x88matroska", False),
        (RecordingFormat.MP4, b"ftyp", False),
    ],
)
def test_signature_of_what_is_nearly_the_format(
    format: RecordingFormat, start: bytes, expected: bool
) -> None:
    assert has_signature(format, start) is expected
