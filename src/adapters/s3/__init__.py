"""Recordings in S3-compatible storage, through minio's client.

What a host imports from here is listed in ``__all__`` and kept stable. A name is imported when it is first asked for:
the libraries behind it take long.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .recording_storage import S3RecordingStorage

__all__ = ["S3RecordingStorage"]

_MODULES: Final = {
    "S3RecordingStorage": "recording_storage",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f".{_MODULES[name]}", __name__), name)
    return value
