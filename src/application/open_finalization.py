"""A recording enters asynchronous finalization."""

from __future__ import annotations

from uuid import UUID

from attrs import frozen

from ..domain.recording_finalize import FinalizeStatus, RecordingFinalize
from ..domain.retry_schedule import RetrySchedule
from .ports.clock import Clock
from .ports.entropy import NewId
from .ports.finalization import FinalizationStore


@frozen(kw_only=True)
class OpenFinalization:
    """Opens the finalize row of a recording that is being uploaded, or whose session ended while it records.

    Idempotent: a second call changes nothing. Joined to a host's transaction, the host's commit decides.
    """

    store: FinalizationStore
    clock: Clock
    new_id: NewId

    async def __call__(self, recording_id: UUID) -> bool:
        """True when this call opened the row, False when it was open or closed already.

        Raises `LookupError` when there is no such recording.
        """
        async with self.store.begin() as work:
            recording = await work.lock(recording_id)
            if recording is None:
                raise LookupError(f"there is no recording {recording_id}")
            now = self.clock.now()
            opened = await work.open(
                RecordingFinalize(
                    id=self.new_id(),
                    recording_id=recording.id,
                    session_kind=recording.session_kind,
                    session_id=recording.session_id,
                    status=FinalizeStatus.PENDING,
                    schedule=RetrySchedule(attempts=0, next_attempt_at=now),
                    created_at=now,
                    updated_at=now,
                    version=0,
                )
            )
            await work.commit()
        return opened
