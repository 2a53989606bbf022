"""A stored object that can be read like a file, a block at a time."""

from __future__ import annotations

import os
from typing import Final

from attrs import define, field

from .stored_object import BLOCK, ReadRange

MOST_BLOCKS: Final = 16
"""Twice of what the headers of long recordings took, and far from a recording: 512 KiB."""


class ReadBudgetSpent(Exception):
    """Whoever reads has seen `MOST_BLOCKS` blocks and wants yet another."""


@define(eq=False)
class RangedFile:
    """Binary and read-only, with what parsers need of a file. Blocks are kept, so none is fetched twice.

    `failure` keeps what the storage raised: a parser may take it for a fault of the file and swallow it.
    """

    size: int
    _read_range: ReadRange
    failure: Exception | None = field(default=None, init=False)
    _position: int = field(default=0, init=False)
    _blocks: dict[int, bytes] = field(factory=dict[int, bytes], init=False)

    def tell(self) -> int:
        """Where the next read starts."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """As a file's; raises `OSError` for a place before the start."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self.size}[whence]
        if start + offset < 0:
            raise OSError("a file has no place before its start")
        self._position = start + offset
        return self._position

    def read(self, length: int = -1) -> bytes:
        """As a file's: fewer bytes at the end. Raises what the storage raises, and `ReadBudgetSpent`."""
        end = self.size if length < 0 else min(self._position + length, self.size)
        if end <= self._position:
            return b""
        first, last = self._position // BLOCK, (end - 1) // BLOCK
        skipped = self._position - first * BLOCK
        if first == last:  # nearly always: parsers read a few bytes at a time
            content = self._block(first)[skipped : end - first * BLOCK]
        else:
            blocks = b"".join(self._block(number) for number in range(first, last + 1))
            content = blocks[skipped : skipped + end - self._position]
        self._position = end
        return content

    def _block(self, number: int) -> bytes:
        if number not in self._blocks:
            if len(self._blocks) >= MOST_BLOCKS:
                raise ReadBudgetSpent
            offset = number * BLOCK
            try:
                self._blocks[number] = self._read_range(offset, min(BLOCK, self.size - offset))
            except Exception as error:
                self.failure = error
                raise
        return self._blocks[number]
