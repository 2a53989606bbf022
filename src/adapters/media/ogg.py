"""Duration of Ogg with Opus or Vorbis: the position that the last page of the stream states (RFC 3533, RFC 7845)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from attrs import frozen

from .ranged_file import RangedFile
from .stored_object import BLOCK

# Capture pattern, version, flags, position, serial, then (after number and checksum) how many segments.
_PAGE: Final = struct.Struct("<4s B B q I 8x B")
_FIRST_OF_STREAM: Final = 0x02
# A page has at most 65,307 bytes, and pages of a video may follow the sound's last.
_TAILS: Final = (BLOCK, 4 * BLOCK)
_NO_PACKET_ENDS_HERE: Final = -1


@frozen
class _Sound:
    serial: int
    samples_per_second: int
    samples_to_skip: int


def ogg_seconds(file: RangedFile) -> float | None:
    """Seconds of the first sound in it, or None. Raises `struct.error` where it is cut off."""
    sound = next(_sounds(file.read(BLOCK)), None)
    if sound is None or sound.samples_per_second == 0:
        return None
    for length in _TAILS:
        file.seek(max(file.size - length, 0))
        position = _last_position(file.read(length), sound.serial)
        if position is not None:
            return (position - sound.samples_to_skip) / sound.samples_per_second
    return None


def _sounds(start: bytes) -> Iterator[_Sound]:
    """The streams announced at the start, one page each before any other page; skips what is no sound."""
    offset = 0
    while start.startswith(b"OggS", offset):
        _, _, flags, _, serial, segments = _PAGE.unpack_from(start, offset)
        if not flags & _FIRST_OF_STREAM:
            return
        content = offset + _PAGE.size + segments
        if start.startswith(b"OpusHead", content):
            yield _Sound(serial, 48_000, struct.unpack_from("<H", start, content + 10)[0])
        elif start.startswith(b"\x01vorbis", content):
            yield _Sound(serial, struct.unpack_from("<I", start, content + 12)[0], 0)
        offset = content + sum(start[offset + _PAGE.size : content])


def _last_position(tail: bytes, serial: int) -> int | None:
    offset = tail.rfind(b"OggS")
    while offset >= 0:
        if len(tail) - offset >= _PAGE.size:
            _, version, _, position, page_serial, _ = _PAGE.unpack_from(tail, offset)
            if version == 0 and page_serial == serial and position != _NO_PACKET_ENDS_HERE:
                return int(position)
        offset = tail.rfind(b"OggS", 0, offset)
    return None
