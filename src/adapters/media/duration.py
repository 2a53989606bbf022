"""How long a recording lasts, from its container's headers."""

from __future__ import annotations

import struct
from datetime import timedelta
from typing import BinaryIO, cast

from tinytag import TinyTag
from tinytag.tinytag import TinyTagException

from ...domain.evidence import RecordingFormat
from .ogg import ogg_seconds
from .ranged_file import RangedFile, ReadBudgetSpent
from .webm import webm_seconds


def measured_duration(format: RecordingFormat, file: RangedFile) -> timedelta | None:
    """The duration that the headers state, or None when they are broken, cut off, silent or out of the budget's reach.

    It may be untrue: nothing but headers is read. Raises what the storage raised, and nothing else.
    """
    try:
        seconds = _seconds(format, file)
    except (TinyTagException, ReadBudgetSpent, EOFError, OSError, ValueError, ArithmeticError, struct.error):
        seconds = None
    if file.failure is not None:
        raise file.failure
    if seconds is None or not 0 < seconds < timedelta.max.total_seconds():
        return None
    return timedelta(seconds=seconds)


def _seconds(format: RecordingFormat, file: RangedFile) -> float | None:
    file.seek(0)
    match format:
        case RecordingFormat.WEBM:
            return webm_seconds(file)  # tinytag does not know it
        case RecordingFormat.OGG:
            return ogg_seconds(file)  # tinytag would read every page of it
        case RecordingFormat.MP4 | RecordingFormat.M4A | RecordingFormat.MP3 | RecordingFormat.WAV:
            # A file as far as tinytag uses one: read, seek and tell.
            return TinyTag.get(file_obj=cast("BinaryIO", file), tags=False).duration
