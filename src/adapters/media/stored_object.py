"""An object as its storage describes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from attrs import frozen

BLOCK: Final = 32 * 1024
"""Bytes asked for at once: every read starts at a multiple of this, and only the object's last block is shorter."""

ReadRange = Callable[[int, int], bytes]
"""Exactly ``length`` bytes from ``offset`` on; whatever it raises is the storage's own affair and passes through."""


@frozen(kw_only=True)
class StoredObject:
    """An object that is there. Its metadata's keys may come in any case."""

    object_key: str
    size_bytes: int
    content_type: str | None
    metadata: Mapping[str, str]
    read: ReadRange
