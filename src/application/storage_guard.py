"""Storage as a whole cannot be asked: found out before a row pays for it, so that an outage costs no attempts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final
from uuid import UUID

from attrs import define, field

from ..domain.call_recording import CallRecording
from ..domain.evidence import Evidence, StorageMisconfigured, Unreachable
from .ports.recording_storage import RecordingStorage

CONNECTION_FAILURE_THRESHOLD: Final = 3
"""Recordings asked for in a row without even a connection, after which storage counts as down."""

Witnesses = Callable[[], Awaitable[Sequence[CallRecording]]]
"""Further recordings that storage would be asked for in this cycle."""


@define(eq=False)
class StorageGuard:
    """Asks storage, and is closed for the rest of a cycle once storage as a whole is known to be out of order.

    That is after a fault of the whole bucket, or when several recordings in a row found no connection. Which ones is
    remembered from cycle to cycle until storage answers: when little is due, an outage shows over several cycles.
    """

    _storage: RecordingStorage
    _at_once: asyncio.Semaphore
    _fault: StorageMisconfigured | None = field(default=None, init=False)
    _reason: Evidence | None = field(default=None, init=False)
    _without_answer: set[UUID] = field(factory=set[UUID], init=False)
    _asking: int = field(default=0, init=False)
    _asked: asyncio.Event = field(factory=asyncio.Event, init=False)

    @property
    def closed(self) -> bool:
        """Whether storage is not asked any more in this cycle."""
        return self._reason is not None

    def reopen(self) -> None:
        """A new cycle begins: storage is asked again."""
        self._reason, self._fault = None, None

    def take_fault(self) -> StorageMisconfigured | None:
        """The fault that closed the guard, once a cycle: whoever takes it tells of it."""
        fault, self._fault = self._fault, None
        return fault

    async def look(
        self, recording: CallRecording, *, may_begin: Callable[[], bool] = lambda: True
    ) -> Evidence | None:
        """Ask for the recording's object and take note of the evidence. Raises nothing but cancellation.

        Who had to wait for others, and finds the guard closed by what these were told, is told the same. None when
        the look was not to begin any more after the wait.
        """
        async with self._at_once, self._being_asked():
            if self._reason is not None:
                return self._reason
            if not may_begin():
                return None
            evidence = await self._storage.look(recording.object_key)
            self._observe(recording.id, evidence)
        return evidence

    async def blames_outage(self, recording: CallRecording, evidence: Evidence, others: Witnesses) -> bool:
        """Whether this look failed because storage as a whole is down, rather than for this recording's sake.

        While that is open, waits for the looks under way, and then asks for one of the ``others`` after another: at
        most as many as the threshold. Without any left, the failure is the recording's own. Raises what ``others``
        raises.
        """
        while not self.closed and recording.id in self._without_answer:
            if self._asking:
                await self._asked.wait()
            elif not await self._ask_another(others):
                break
        return self.closed and isinstance(evidence, Unreachable)

    async def _ask_another(self, others: Witnesses) -> bool:
        async with self._being_asked():
            for recording in await others():
                if recording.id not in self._without_answer:
                    await self.look(recording)
                    return True
        return False

    def _observe(self, recording_id: UUID, evidence: Evidence) -> None:
        if isinstance(evidence, StorageMisconfigured):
            if self._reason is None:
                self._reason = self._fault = evidence
        elif isinstance(evidence, Unreachable) and evidence.connection_failed:
            if len(self._without_answer) < CONNECTION_FAILURE_THRESHOLD:
                self._without_answer.add(recording_id)
            if len(self._without_answer) >= CONNECTION_FAILURE_THRESHOLD:
                self._reason = self._reason or evidence
        else:
            self._without_answer.clear()

    @asynccontextmanager
    async def _being_asked(self) -> AsyncGenerator[None]:
        """Meanwhile nobody else decides; at its end, everybody who waits looks again."""
        self._asking += 1
        try:
            yield
        finally:
            self._asking -= 1
            self._asked.set()
            self._asked = asyncio.Event()
