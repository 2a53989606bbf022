"""Storage of recordings and of the intents to finish them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Protocol
from uuid import UUID

from attrs import frozen

from ...domain.call_recording import CallRecording
from ...domain.finalization import FinalizeSnapshot
from ...domain.recording_finalize import RecordingFinalize
from ..cursor import Cursor
from .outbox import OutboxMessage
from .realtime_outbox import RealtimeNotice
from .unit_of_work import UnitOfWork


@frozen(kw_only=True)
class FinalizationBacklog:
    """How many recordings are unfinished, at one instant.

    ``pending`` counts rows that automatic attempts still go on for, ``due`` those of them that the next cycle takes,
    ``quarantined`` those that wait for an operator; ``oldest_created_at`` is of the oldest pending row.
    """

    pending: int
    due: int
    quarantined: int
    oldest_created_at: datetime | None


@frozen(kw_only=True)
class FinalizationChange:
    """Everything that one step writes, all or nothing, guarded by the versions before it.

    ``entry`` and ``recording`` are the next values (each one version ahead of what is stored), None where the step
    leaves that row alone; ``message`` and ``notice`` tell the outside.
    """

    entry: RecordingFinalize | None = None
    recording: CallRecording | None = None
    message: OutboxMessage | None = None
    notice: RealtimeNotice | None = None


class FinalizationUnit(UnitOfWork, Protocol):
    """One transaction over recordings, finalize rows and both outboxes."""

    async def lock(self, recording_id: UUID) -> CallRecording | None:
        """Lock the recording, waiting for its holder; None when there is none.

        Raises `RowRolledBack` when the wait exceeds the lock time-out.
        """
        ...

    async def entry(self, recording_id: UUID) -> RecordingFinalize | None:
        """The recording's finalize row, locked; None when it was never opened."""
        ...

    async def lock_entry(self, entry_id: UUID) -> RecordingFinalize | None:
        """Lock a finalize row by its own id, waiting for its holder; None when there is none."""
        ...

    async def open(self, entry: RecordingFinalize) -> bool:
        """Insert a finalize row; False when the recording has one (``ux_rfa_recording``), and then nothing.

        Waits for a concurrent transaction that is about to insert the recording's row, or has written it; raises
        `RowRolledBack` when the wait exceeds the lock time-out.
        """
        ...

    async def write(self, change: FinalizationChange) -> bool:
        """Write a change; False, and nothing written, when a version has moved. Raises `DataRejected`."""
        ...


class FinalizationStore(Protocol):
    """Recordings to be finished. Contract tests: ``tests.contract.finalization_store``.

    Every method raises `DatabaseUnavailable`, `RowRolledBack` or `Misconfigured`; none leaks a connection, a lock or a
    transaction when it raises or is cancelled, and none holds a connection between calls.
    """

    async def candidates(
        self, *, as_of: datetime, after: Cursor | None, limit: int
    ) -> Sequence[FinalizeSnapshot]:
        """The next pending rows due at ``as_of`` behind the cursor, by ``(next_attempt_at, id)``, at most ``limit``.

        Read ahead without locks, with the recording and whether its event is recorded.
        """
        ...

    async def snapshot(self, entry_id: UUID) -> FinalizeSnapshot | None:
        """One row as committed now, whatever its state; None when there is none."""
        ...

    async def write(self, change: FinalizationChange) -> bool:
        """Write a change as one transaction of its own.

        False, with nothing written, when a version has moved or a row is locked by another transaction (it is
        skipped, never waited for). Raises `DataRejected`; on `DatabaseUnavailable` the outcome may be unknown.
        """
        ...

    def begin(self) -> AbstractAsyncContextManager[FinalizationUnit]:
        """A new unit of work; leaving it without commit rolls it back."""
        ...

    async def backlog(self, *, as_of: datetime) -> FinalizationBacklog:
        """Count the backlog as of ``as_of``."""
        ...

    async def quarantined_ids(self, *, error: str | None = None) -> Collection[UUID]:
        """Ids of quarantined rows, optionally only those with exactly this ``last_error``."""
        ...
