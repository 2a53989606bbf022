"""Whether a stored object is a usable recording."""

from __future__ import annotations

from ...domain.evidence import Empty, Found, Unsupported
from .duration import measured_duration
from .formats import SIGNATURE_LENGTH, format_of, has_signature
from .object_metadata import file_id, stated_duration
from .ranged_file import RangedFile
from .stored_object import StoredObject


def examine(stored: StoredObject) -> Found | Empty | Unsupported:
    """What an object that is there is worth as a recording; reads at most a few blocks of it, in the caller's thread.

    Raises what the object's storage raises, and nothing else, however broken the object is.
    """
    if stored.size_bytes == 0:
        return Empty()
    format = format_of(stored.content_type)
    if format is None:
        return Unsupported(code="UNKNOWN_CONTENT_TYPE")
    file = RangedFile(stored.size_bytes, stored.read)
    if not has_signature(format, file.read(SIGNATURE_LENGTH)):
        return Unsupported(code="CONTENT_MISMATCH")
    return Found(
        file_id=file_id(stored.metadata, stored.object_key),
        size_bytes=stored.size_bytes,
        format=format,
        stated_duration=stated_duration(stored.metadata),
        measured_duration=measured_duration(format, file),
    )
