"""Duration of WebM: the element ``Duration`` in the segment's ``Info``, ahead of the media (RFC 8794, RFC 9559).

Browsers that record live leave it out.
"""

from __future__ import annotations

import struct
from io import BytesIO
from typing import Final, Protocol

from .ranged_file import RangedFile

_EBML: Final = 0x1A45DFA3
_SEGMENT: Final = 0x18538067
_INFO: Final = 0x1549A966
_TIMESTAMP_SCALE: Final = 0x2AD7B1
_DURATION: Final = 0x4489
_CLUSTER: Final = 0x1F43B675  # the media

_MOST_ELEMENTS: Final = 100  # ahead of the media there are fewer than ten
_MOST_INFO: Final = 16 * 1024  # bytes; it holds a few numbers and names
_NANOSECONDS: Final = 1_000_000_000
_FLOATS: Final = {4: ">f", 8: ">d"}


class _Readable(Protocol):
    def read(self, length: int, /) -> bytes: ...


def webm_seconds(file: RangedFile) -> float | None:
    """Seconds stated, or None. Raises `EOFError` where it is cut off and `ValueError` where it is broken."""
    element, size = _element(file)
    if element != _EBML or size is None:
        return None
    file.seek(size, 1)
    if _element(file)[0] != _SEGMENT:
        return None
    for _ in range(_MOST_ELEMENTS):
        element, size = _element(file)
        if element == _INFO and size is not None:
            return _stated_seconds(file.read(min(size, _MOST_INFO)))
        if element == _CLUSTER or size is None:
            return None
        file.seek(size, 1)
    return None


def _stated_seconds(info: bytes) -> float | None:
    nanoseconds_per_tick, ticks = 1_000_000, None
    content = BytesIO(info)
    while content.tell() < len(info):
        element, size = _element(content)
        value = content.read(size or 0)
        if element == _TIMESTAMP_SCALE:
            nanoseconds_per_tick = int.from_bytes(value)
        elif element == _DURATION and len(value) in _FLOATS:
            (ticks,) = struct.unpack(_FLOATS[len(value)], value)
    return None if ticks is None else ticks * nanoseconds_per_tick / _NANOSECONDS


def _element(file: _Readable) -> tuple[int, int | None]:
    """An element's id and its size; the size is None when it was not known while writing."""
    element, _ = _number(file)
    marked, length = _number(file)
    size = marked - (1 << 7 * length)
    return element, None if size == (1 << 7 * length) - 1 else size


def _number(file: _Readable) -> tuple[int, int]:
    """A number with the bit that marks its length, and that length in bytes."""
    first = _exactly(file, 1)
    length = 9 - first[0].bit_length()
    if length > 8:
        raise ValueError("a number without the bit that marks its length")
    return int.from_bytes(first + _exactly(file, length - 1)), length


def _exactly(file: _Readable, length: int) -> bytes:
    content = file.read(length)
    if len(content) < length:
        raise EOFError
    return content
