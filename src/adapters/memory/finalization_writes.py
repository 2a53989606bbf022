"""What one step of a finalization writes, within a statement that is under way."""

from __future__ import annotations

from attrs import evolve

from ...application.ports.finalization import FinalizationChange
from ...domain.call_recording import CallRecording, RecordingStatus
from ...domain.recording_finalize import FinalizeStatus, RecordingFinalize
from .database import Transaction
from .outbox import insert_message
from .schema import MessengerDatabase

_IN_PROGRESS = (RecordingStatus.RECORDING, RecordingStatus.UPLOADING)


async def write_change(
    database: MessengerDatabase, transaction: Transaction, change: FinalizationChange
) -> bool:
    """See `FinalizationUnit.write`; a row that somebody else has is skipped, never waited for."""
    entry = _lock_entry(database, transaction, change.entry)
    recording = _lock_recording(database, transaction, change.recording)
    if (entry is None) != (change.entry is None) or (recording is None) != (change.recording is None):
        return False
    if entry is not None and change.entry is not None:
        await transaction.update(database.finalizations, _written_entry(entry, change.entry))
    if recording is not None and change.recording is not None:
        await transaction.update(database.recordings, _written_recording(recording, change.recording))
    # Clients are not told again of what an earlier message has told already.
    news = change.message is None or await insert_message(database, transaction, change.message)
    if change.notice is not None and news:
        await transaction.insert(database.realtime_outbox, change.notice)
    return True


def _lock_entry(
    database: MessengerDatabase, transaction: Transaction, entry: RecordingFinalize | None
) -> RecordingFinalize | None:
    stored = None if entry is None else transaction.get(database.finalizations, entry.id)
    if entry is None or stored is None:
        return None
    if stored.version != entry.version - 1 or stored.status is FinalizeStatus.DONE:
        return None
    return transaction.try_lock(database.finalizations, entry.id)


def _lock_recording(
    database: MessengerDatabase, transaction: Transaction, recording: CallRecording | None
) -> CallRecording | None:
    stored = None if recording is None else transaction.get(database.recordings, recording.id)
    if recording is None or stored is None:
        return None
    if stored.version != recording.version - 1 or stored.status not in _IN_PROGRESS:
        return None
    return transaction.try_lock(database.recordings, recording.id)


def _written_entry(stored: RecordingFinalize, entry: RecordingFinalize) -> RecordingFinalize:
    return evolve(
        stored,
        status=entry.status,
        schedule=entry.schedule,
        updated_at=entry.updated_at,
        version=entry.version,
    )


def _written_recording(stored: CallRecording, recording: CallRecording) -> CallRecording:
    return evolve(
        stored,
        status=recording.status,
        media=recording.media or stored.media,
        failure_reason=recording.failure_reason,
        ended_at=recording.ended_at,
        available_at=recording.available_at,
        updated_at=recording.updated_at,
        version=recording.version,
    )
