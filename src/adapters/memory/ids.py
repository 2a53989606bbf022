"""Ids that are the same in every run."""

from __future__ import annotations

from uuid import UUID


class SequentialIds:
    """A `NewId` that counts; sources with different ``space`` numbers never give the same id."""

    def __init__(self, space: int = 0) -> None:
        self._last = space << 64

    def __call__(self) -> UUID:
        """The next id, greater than all before it."""
        self._last += 1
        return UUID(int=self._last)
