"""Where recordings' binaries are."""

from __future__ import annotations

from typing import Protocol

from ...domain.evidence import Evidence


class RecordingStorage(Protocol):
    """The storage category ``CALL_RECORDINGS``. Contract tests: ``tests.contract.recording_storage``."""

    async def look(self, object_key: str) -> Evidence:
        """Ask for the object at ``object_key``; every answer, and every failure to get one, is evidence.

        Bounded in time by the adapter's per-object time-out, without hidden retries; runs off the event loop.
        Raises nothing but cancellation, after which nothing is left running beyond that time-out.
        """
        ...
