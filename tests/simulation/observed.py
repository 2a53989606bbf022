"""Ports and jobs as a process has them, with somebody who takes notes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Generic, Protocol, TypeVar
from uuid import UUID

from attrs import field, frozen
from messenger_jobs.adapters.memory.finalization import MemoryFinalizationStore, MemoryFinalizationUnit
from messenger_jobs.adapters.memory.recording_storage import MemoryRecordingStorage
from messenger_jobs.adapters.memory.run_locks import MemoryRunLease, MemoryRunLocks
from messenger_jobs.application.cursor import Cursor
from messenger_jobs.application.cycle_report import AttemptReport, Cycle
from messenger_jobs.application.ports.errors import RowRolledBack
from messenger_jobs.application.ports.finalization import FinalizationChange
from messenger_jobs.application.run_cycle import PeriodicJob
from messenger_jobs.domain.evidence import Evidence

from tests.simulation.faults import Port
from tests.simulation.names import named
from tests.simulation.process import Process
from tests.simulation.world import LOCK_TTL

Candidate = TypeVar("Candidate")


class Due(Protocol):
    """The committed rows of a job that are due, by id."""

    def __call__(self, as_of: datetime) -> dict[UUID, object]: ...


@frozen
class ObservedJob(Generic[Candidate]):
    """Notes which rows a cycle starts, and whether it may."""

    _job: PeriodicJob[Candidate]
    _process: Process
    _due: Due

    @property
    def name(self) -> str:
        """The job's."""
        return self._job.name

    async def candidates(self, *, as_of: datetime, after: Cursor | None, limit: int) -> Sequence[Candidate]:
        """The job's."""
        facts = self._process.facts
        if after is None and not facts.started:
            facts.due = self._due(as_of)
        return await self._job.candidates(as_of=as_of, after=after, limit=limit)

    def cursor(self, candidate: Candidate) -> Cursor:
        """The job's."""
        return self._job.cursor(candidate)

    async def attempt(self, candidate: Candidate, cycle: Cycle) -> AttemptReport:
        """The job's, after a look at what must hold before any row is started."""
        process, facts, place = self._process, self._process.facts, self._job.cursor(candidate)
        monitor, who = process.world.monitor, f"{process.name} starts {named(place.id)}"
        if place in facts.places:
            monitor.violate(6, "a cycle never goes back", who)
        if facts.interrupted:
            monitor.violate(9, "whoever is to end starts nothing new", who)
        process.expect_to_hold_the_lock(who)
        facts.places.add(place)
        facts.started.add(place.id)
        facts.may_begin = cycle.may_begin
        return await self._job.attempt(candidate, cycle)


@frozen
class ObservedRunLocks:
    """Notes until when a process can be sure of its lock."""

    _locks: MemoryRunLocks
    _process: Process

    @asynccontextmanager
    async def try_acquire(self, name: str) -> AsyncGenerator[ObservedLease | None]:
        """See `RunLocks`."""
        asked_at = self._process.world.clock.monotonic()
        async with self._locks.try_acquire(name) as lease:
            if lease is None:
                yield None
            else:
                self._process.facts.lock_sure_until = asked_at + LOCK_TTL.total_seconds()
                yield ObservedLease(lease, self._process)


@frozen
class ObservedLease:
    """Notes every answer about the lock."""

    _lease: MemoryRunLease
    _process: Process

    @property
    def expired(self) -> bool:
        """See `RunLease`."""
        return self._lease.expired

    @property
    def confirmation_due(self) -> bool:
        """See `RunLease`."""
        return self._lease.confirmation_due

    async def confirm(self) -> bool:
        """See `RunLease`."""
        asked_at = self._process.world.clock.monotonic()
        held = False
        try:
            held = await self._lease.confirm()
        finally:
            facts = self._process.facts
            facts.lock_sure_until = asked_at + LOCK_TTL.total_seconds() if held else None
        return held


@frozen
class ObservedFinalizationStore(MemoryFinalizationStore):
    """Notes whether a change carries anything that a database could refuse."""

    _process: Process = field(kw_only=True, alias="process")

    async def write(self, change: FinalizationChange) -> bool:
        """See `FinalizationStore`."""
        self._process.own_data_only = change.message is None and change.recording is None
        writing = super().write(change)
        written = await writing
        if not written:
            self._process.facts.unsettled = True
        return written

    @asynccontextmanager
    async def begin(self) -> AsyncGenerator[MemoryFinalizationUnit]:
        """See `FinalizationStore`."""
        try:
            async with MemoryFinalizationStore.begin(self) as work:
                yield work
        except RowRolledBack:
            self._process.facts.unsettled = True
            raise


@frozen
class ObservedStorage:
    """The world's objects, and a note of everything that was said of them."""

    _process: Process

    async def look(self, object_key: str) -> Evidence:
        """See `RecordingStorage`."""
        process = self._process
        storage = MemoryRecordingStorage(switch=process.exchange(Port.STORAGE))
        if object_key in process.world.objects:
            storage.answer(object_key, process.world.objects[object_key])
        evidence = await storage.look(object_key)
        evidence = process.evidence_instead() or evidence
        process.facts.told.setdefault(object_key, []).append(evidence)
        return evidence
