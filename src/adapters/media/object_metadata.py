"""What an object's metadata says about the recording."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Final
from uuid import UUID, uuid5

CATEGORY: Final = "CALL_RECORDINGS"

_NAMESPACE: Final = UUID("99ba1519-c9cf-4235-ba91-660cfe4884fe")
"""Never to be changed: the ids made from it are stored and published."""


def file_id(metadata: Mapping[str, str], object_key: str) -> UUID:
    """The UUID in the metadata's ``file-id``, else one made from category and key: the same at every look."""
    try:
        return UUID(_value(metadata, "file-id"))
    except ValueError:
        return uuid5(_NAMESPACE, f"{CATEGORY}/{object_key}")


def stated_duration(metadata: Mapping[str, str]) -> timedelta | None:
    """The metadata's ``duration-seconds``, also a negative or impossible one; None when it is no number."""
    try:
        return timedelta(seconds=float(_value(metadata, "duration-seconds")))
    except (ValueError, OverflowError):  # also for "nan" and "inf"
        return None


def _value(metadata: Mapping[str, str], name: str) -> str:
    return next((value for key, value in metadata.items() if key.lower() == name), "")
