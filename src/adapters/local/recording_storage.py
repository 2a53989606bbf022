"""Recordings in a folder."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Final

from attrs import field, frozen
from cattrs import BaseValidationError, Converter
from cattrs.gen import make_dict_structure_fn, override

from ...domain.evidence import Evidence, Missing, StorageMisconfigured, Unreachable, Unsupported
from ..media.examination import examine
from ..media.object_key import is_object_key
from ..media.stored_object import StoredObject

_CONTENT_TYPES: Final[Mapping[str, str]] = {
    ".m4a": "audio/mp4",
    ".mp3": "audio/mpeg",
    ".mp4": "video/mp4",
    ".oga": "audio/ogg",
    ".ogg": "audio/ogg",
    ".opus": "audio/ogg",
    ".wav": "audio/wav",
    ".webm": "video/webm",
}


@frozen
class _Description:
    """What stands beside the file ``name`` in ``name.json``: ``{"content-type": "audio/ogg", "metadata": {...}}``."""

    content_type: str | None = None
    metadata: Mapping[str, str] = field(factory=dict[str, str])


_converter: Final = Converter()
_converter.register_structure_hook(
    _Description,
    make_dict_structure_fn(_Description, _converter, content_type=override(rename="content-type")),
)


@frozen
class FolderRecordingStorage:
    """See `RecordingStorage`: the category ``CALL_RECORDINGS`` is a folder, an object's key its path below it.

    The content type and the user metadata stand in a file beside the object's, named like it with ``.json`` at the end;
    without one the name's ending decides. No key leads out of the folder, not even through a link in it.
    The time-out ends the wait, not a file system that hangs.
    """

    folder: Path = field(converter=Path)
    storage_timeout: timedelta = field(default=timedelta(seconds=15), kw_only=True)

    async def look(self, object_key: str) -> Evidence:
        """See `RecordingStorage.look`."""
        try:
            async with asyncio.timeout(self.storage_timeout.total_seconds()):
                return await asyncio.to_thread(self._answer, object_key)
        except TimeoutError:
            return Unreachable(code="TIMED_OUT", connection_failed=True)

    def _answer(self, object_key: str) -> Evidence:
        try:
            return self._evidence(object_key)
        except PermissionError:
            return StorageMisconfigured(code="ACCESS_DENIED")
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                return Unsupported(code="INVALID_OBJECT_KEY")
            return Unreachable(code="FILE_UNREADABLE", connection_failed=False)

    def _evidence(self, object_key: str) -> Evidence:
        folder = self.folder.resolve()
        if not folder.is_dir():
            return StorageMisconfigured(code="NO_SUCH_FOLDER")
        if "\0" in object_key or not is_object_key(object_key):
            return Unsupported(code="INVALID_OBJECT_KEY")
        path = (folder / object_key).resolve()
        if path == folder or not path.is_relative_to(folder):
            return Unsupported(code="INVALID_OBJECT_KEY")
        if not path.is_file():
            return Missing()
        try:
            description = _description(path)
        except (ValueError, BaseValidationError):
            return Unsupported(code="UNREADABLE_METADATA")
        return _examined(object_key, path, description)


def _examined(object_key: str, path: Path, description: _Description) -> Evidence:
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return Missing()
    with file:

        def read(offset: int, length: int) -> bytes:
            file.seek(offset)
            return file.read(length)

        return examine(
            StoredObject(
                object_key=object_key,
                size_bytes=file.seek(0, os.SEEK_END),
                content_type=description.content_type or _CONTENT_TYPES.get(path.suffix.lower()),
                metadata=description.metadata,
                read=read,
            )
        )


def _description(path: Path) -> _Description:
    """What stands beside it, if anything; raises `ValueError` or `BaseValidationError` when that is broken."""
    try:
        text = path.with_name(f"{path.name}.json").read_bytes()
    except FileNotFoundError:
        return _Description()
    described = json.loads(text)
    if not isinstance(described, dict):
        raise ValueError("a description is an object")
    return _converter.structure(described, _Description)
