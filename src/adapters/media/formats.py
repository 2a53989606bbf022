"""Which container a content type names, and by which first bytes that container is known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ...domain.evidence import RecordingFormat

SIGNATURE_LENGTH: Final = 64

_FORMATS: Final[Mapping[str, RecordingFormat]] = {
    "video/mp4": RecordingFormat.MP4,
    "audio/m4a": RecordingFormat.M4A,
    "audio/mp4": RecordingFormat.M4A,
    "audio/x-m4a": RecordingFormat.M4A,
    "audio/webm": RecordingFormat.WEBM,
    "video/webm": RecordingFormat.WEBM,
    "application/ogg": RecordingFormat.OGG,
    "audio/ogg": RecordingFormat.OGG,
    "video/ogg": RecordingFormat.OGG,
    "audio/mp3": RecordingFormat.MP3,
    "audio/mpeg": RecordingFormat.MP3,
    "audio/vnd.wave": RecordingFormat.WAV,
    "audio/wav": RecordingFormat.WAV,
    "audio/wave": RecordingFormat.WAV,
    "audio/x-wav": RecordingFormat.WAV,
}


def format_of(content_type: str | None) -> RecordingFormat | None:
    """The format that a content type names; its parameters, such as ``codecs``, do not matter. None: no recording's."""
    media_type = (content_type or "").partition(";")[0]
    return _FORMATS.get(media_type.strip().lower())


def has_signature(format: RecordingFormat, start: bytes) -> bool:
    """Whether the first `SIGNATURE_LENGTH` bytes (or all, if fewer) can be those of this container."""
    match format:
        case RecordingFormat.MP4 | RecordingFormat.M4A:
            return start[4:8] == b"ftyp"
        case RecordingFormat.WEBM:
            # Matroska begins the same way; only the document's type within the first element tells them apart.
            return start.startswith(b"\x1a\x45\xdf\xa3") and b"webm" in start
        case RecordingFormat.OGG:
            return start.startswith(b"OggS")
        case RecordingFormat.MP3:
            return start.startswith(b"ID3") or _is_mpeg_audio_frame(start)
        case RecordingFormat.WAV:
            return start.startswith((b"RIFF", b"RF64")) and start[8:12] == b"WAVE"


def _is_mpeg_audio_frame(start: bytes) -> bool:
    # Eleven bits that are set; then, after the version, a layer that is not 0: AAC without a container has layer 0.
    return len(start) >= 2 and start[0] == 0xFF and start[1] & 0xE0 == 0xE0 and start[1] & 0x06 != 0
