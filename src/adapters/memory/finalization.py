"""Recordings to be finished, in the memory database."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from uuid import UUID

from attrs import field, frozen

from ...application.cursor import Cursor
from ...application.integration_events import call_recording_available_key
from ...application.ports.finalization import FinalizationBacklog, FinalizationChange
from ...domain.call_recording import CallRecording
from ...domain.finalization import FinalizeSnapshot
from ...domain.recording_finalize import FinalizeStatus, RecordingFinalize
from .database import Transaction
from .finalization_writes import write_change
from .schema import MessengerDatabase
from .switch import Switch, let_others_run


@frozen
class MemoryFinalizationStore:
    """See `FinalizationStore`. Several stores may share a database, as processes do."""

    _database: MessengerDatabase
    _switch: Switch = field(default=let_others_run, kw_only=True, alias="switch")

    async def candidates(
        self, *, as_of: datetime, after: Cursor | None, limit: int
    ) -> Sequence[FinalizeSnapshot]:
        """See `FinalizationStore.candidates`."""
        async with self._reading("candidates") as transaction:
            due = [
                entry
                for entry in transaction.rows(self._database.finalizations)
                if entry.is_due(as_of=as_of)
                and (after is None or _place(entry) > (after.next_attempt_at, after.id))
            ]
            return [self._snapshot(transaction, entry) for entry in sorted(due, key=_place)[:limit]]

    async def snapshot(self, entry_id: UUID) -> FinalizeSnapshot | None:
        """See `FinalizationStore.snapshot`."""
        async with self._reading("snapshot") as transaction:
            entry = transaction.get(self._database.finalizations, entry_id)
            return None if entry is None else self._snapshot(transaction, entry)

    async def write(self, change: FinalizationChange) -> bool:
        """See `FinalizationStore.write`."""
        async with self._database.statement("write", self._switch) as transaction:
            return await write_change(self._database, transaction, change)

    @asynccontextmanager
    async def begin(self) -> AsyncGenerator[MemoryFinalizationUnit]:
        """See `FinalizationStore.begin`."""
        async with self._database.begin(self._switch) as transaction:
            yield MemoryFinalizationUnit(self._database, transaction)

    async def backlog(self, *, as_of: datetime) -> FinalizationBacklog:
        """See `FinalizationStore.backlog`."""
        async with self._reading("backlog") as transaction:
            entries = transaction.rows(self._database.finalizations)
        pending = [entry for entry in entries if entry.status is FinalizeStatus.PENDING]
        return FinalizationBacklog(
            pending=len(pending),
            due=sum(entry.is_due(as_of=as_of) for entry in pending),
            quarantined=sum(entry.status is FinalizeStatus.QUARANTINED for entry in entries),
            oldest_created_at=min((entry.created_at for entry in pending), default=None),
        )

    async def quarantined_ids(self, *, error: str | None = None) -> Collection[UUID]:
        """See `FinalizationStore.quarantined_ids`."""
        async with self._reading("quarantined ids") as transaction:
            entries = transaction.rows(self._database.finalizations)
        return [
            entry.id
            for entry in sorted(entries, key=lambda entry: (entry.created_at, entry.id))
            if entry.status is FinalizeStatus.QUARANTINED and error in (None, entry.schedule.last_error)
        ]

    @asynccontextmanager
    async def _reading(self, operation: str) -> AsyncGenerator[Transaction]:
        async with self._database.statement(operation, self._switch) as transaction:
            yield transaction

    def _snapshot(self, transaction: Transaction, entry: RecordingFinalize) -> FinalizeSnapshot:
        key = call_recording_available_key(entry.recording_id)
        message = transaction.find(self._database.outbox, self._database.outbox_of_dedupe_key, key)
        return FinalizeSnapshot(
            entry=entry,
            recording=transaction.get(self._database.recordings, entry.recording_id),
            event_recorded=message is not None,
        )


@frozen
class MemoryFinalizationUnit:
    """See `FinalizationUnit`."""

    _database: MessengerDatabase
    _transaction: Transaction

    async def lock(self, recording_id: UUID) -> CallRecording | None:
        """See `FinalizationUnit.lock`."""
        async with self._transaction.statement("lock"):
            return await self._transaction.lock(self._database.recordings, recording_id)

    async def entry(self, recording_id: UUID) -> RecordingFinalize | None:
        """See `FinalizationUnit.entry`."""
        async with self._transaction.statement("entry"):
            of_recording = self._database.finalization_of_recording
            found = self._transaction.find(self._database.finalizations, of_recording, recording_id)
            if found is None:
                return None
            return await self._transaction.lock(self._database.finalizations, found.id)

    async def lock_entry(self, entry_id: UUID) -> RecordingFinalize | None:
        """See `FinalizationUnit.lock_entry`."""
        async with self._transaction.statement("lock entry"):
            return await self._transaction.lock(self._database.finalizations, entry_id)

    async def open(self, entry: RecordingFinalize) -> bool:
        """See `FinalizationUnit.open`."""
        async with self._transaction.statement("open"):
            return await self._transaction.insert_unless_there(
                self._database.finalizations, entry, self._database.finalization_of_recording
            )

    async def write(self, change: FinalizationChange) -> bool:
        """See `FinalizationUnit.write`."""
        async with self._transaction.statement("write"):
            return await write_change(self._database, self._transaction, change)

    async def commit(self) -> None:
        """See `UnitOfWork.commit`."""
        await self._transaction.commit()

    @asynccontextmanager
    async def savepoint(self) -> AsyncGenerator[None]:
        """See `UnitOfWork.savepoint`."""
        async with self._transaction.savepoint():
            yield


def _place(entry: RecordingFinalize) -> tuple[datetime, UUID]:
    return entry.schedule.next_attempt_at, entry.id
