"""What the embedded default needs: a local PostgreSQL, a folder as storage, a file as message log.

What a host imports from here is listed in ``__all__`` and kept stable. A name is imported when it is first asked for:
the libraries behind it take long.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .event_publisher import JsonLinesEventPublisher
    from .postgres_programs import embedded_programs
    from .postgres_server import PostgresServer
    from .postgres_server_error import PostgresServerError
    from .recording_storage import FolderRecordingStorage

__all__ = [
    "FolderRecordingStorage",
    "JsonLinesEventPublisher",
    "PostgresServer",
    "PostgresServerError",
    "embedded_programs",
]

_MODULES: Final = {
    "FolderRecordingStorage": "recording_storage",
    "JsonLinesEventPublisher": "event_publisher",
    "PostgresServer": "postgres_server",
    "PostgresServerError": "postgres_server_error",
    "embedded_programs": "postgres_programs",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f".{_MODULES[name]}", __name__), name)
    return value
