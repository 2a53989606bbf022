"""Events in a file, for people and programs without a broker."""

from __future__ import annotations

import asyncio
import base64
import errno
import fcntl
import json
import os
from collections.abc import Sequence
from io import FileIO
from pathlib import Path
from typing import Final

from attrs import define, field

from ...application.ports.errors import Misconfigured
from ...application.ports.event_publisher import (
    Event,
    NotPublished,
    Published,
    Receipt,
    Unpublishable,
    ensure_keys_differ,
)

_BLOCK: Final = 1 << 20
_NOT_OURS: Final = (errno.EACCES, errno.EISDIR, errno.ENOENT, errno.ENOTDIR, errno.EPERM, errno.EROFS)


@define(eq=False)
class JsonLinesEventPublisher:
    """See `EventPublisher`: an event is a line of JSON at the end of the file, flushed to the disk before its receipt.

    A line is ``{"topic": ..., "key": ..., "value": ..., "headers": [[name, value], ...]}``. Bytes that are UTF-8 stand
    there as text, others as ``{"base64": ...}``, nothing as null. The receipt's offset is the number of the line,
    counted from 1; there is no partition. Every topic is there, and no size is too large.

    Several processes may write to one file. A line that a crash cut short is ended, not removed.
    `send_timeout` ends the wait, in seconds, not a file system that hangs.
    """

    file: Path = field(converter=Path)
    send_timeout: float = field(default=30.0, kw_only=True)
    _size: int = field(default=0, init=False)
    _lines: int = field(default=0, init=False)
    _inode: int = field(default=0, init=False)
    _writing: asyncio.Future[Sequence[Receipt]] | None = field(default=None, init=False)

    async def publish(self, events: Sequence[Event]) -> Sequence[Receipt]:
        """See `EventPublisher.publish`. What an earlier call still writes, given up or cancelled, is written before."""
        ensure_keys_differ(events)
        if not events:
            return []
        try:
            async with asyncio.timeout(self.send_timeout):
                while self._writing is not None and not self._writing.done():
                    await asyncio.wait([self._writing])
                self._writing = asyncio.ensure_future(asyncio.to_thread(self._write, events))
                return await asyncio.shield(self._writing)
        except TimeoutError:
            return [NotPublished(code="TIMED_OUT", outage=True) for _ in events]

    def _write(self, events: Sequence[Event]) -> Sequence[Receipt]:
        lines = {
            index: _line(event)
            for index, event in enumerate(events)
            if not (event.key is None and event.value is None)
        }
        try:
            with self.file.open("ab+", buffering=0) as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                first = self._count_lines(file) + 1
                self._append(file, "".join(lines.values()).encode())
        except OSError as error:
            if error.errno in _NOT_OURS:
                raise Misconfigured(
                    "FILE_UNWRITABLE", "the file for events cannot be opened for writing"
                ) from error
            return [NotPublished(code="FILE_UNWRITABLE", outage=True) for _ in events]
        numbers = {index: first + place for place, index in enumerate(lines)}
        return [
            Published(partition=None, offset=numbers[index])
            if index in numbers
            else Unpublishable(code="NO_KEY_AND_NO_VALUE")
            for index in range(len(events))
        ]

    def _count_lines(self, file: FileIO) -> int:
        """Counts only what was written since it counted last, whoever wrote it; ends a line that was cut short."""
        found = os.fstat(file.fileno())
        if found.st_size < self._size or found.st_ino != self._inode:  # another file by now
            self._size, self._lines, self._inode = 0, 0, found.st_ino
        file.seek(self._size)
        ended = True
        while block := file.read(min(_BLOCK, found.st_size - self._size)):
            self._lines += block.count(b"\n")
            self._size += len(block)
            ended = block.endswith(b"\n")
        if not ended:
            self._append(file, b"\n")
        return self._lines

    def _append(self, file: FileIO, content: bytes) -> None:
        """All of it or nothing, as far as the disk lets us."""
        left = memoryview(content)
        try:
            while left:
                left = left[file.write(left) :]
            os.fsync(file.fileno())
        except OSError:
            os.ftruncate(file.fileno(), self._size)
            raise
        self._size += len(content)
        self._lines += content.count(b"\n")


def _line(event: Event) -> str:
    described = {
        "topic": event.topic,
        "key": _readable(event.key),
        "value": _readable(event.value),
        "headers": [[name, _readable(value)] for name, value in event.headers],
    }
    return json.dumps(described, ensure_ascii=False) + "\n"


def _readable(content: bytes | None) -> str | dict[str, str] | None:
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}
