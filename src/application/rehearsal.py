"""A dry run: every row is decided as in a real cycle, nothing is locked and nothing is written."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Generic, Protocol, TypeVar

from attrs import frozen

from .cursor import Cursor
from .cycle_report import AttemptReport, Cycle
from .ports.run_lock import RunLease
from .run_cycle import PeriodicJob

Candidate = TypeVar("Candidate")


class RehearsableJob(PeriodicJob[Candidate], Protocol[Candidate]):
    """A job that can say what an attempt would come to."""

    async def preview(self, candidate: Candidate, cycle: Cycle) -> AttemptReport:
        """What `attempt` would report if nobody else interfered; writes nothing."""
        ...


@frozen
class Rehearsal(Generic[Candidate]):
    """Behaves like the job that it wraps, but previews instead of attempting."""

    _job: RehearsableJob[Candidate]

    @property
    def name(self) -> str:
        """The wrapped job's name."""
        return self._job.name

    async def candidates(self, *, as_of: datetime, after: Cursor | None, limit: int) -> Sequence[Candidate]:
        """As the wrapped job."""
        return await self._job.candidates(as_of=as_of, after=after, limit=limit)

    def cursor(self, candidate: Candidate) -> Cursor:
        """As the wrapped job."""
        return self._job.cursor(candidate)

    async def attempt(self, candidate: Candidate, cycle: Cycle) -> AttemptReport:
        """The wrapped job's preview."""
        return await self._job.preview(candidate, cycle)


class UncontendedRunLocks:
    """Always free: a rehearsal changes nothing, so it neither needs nor takes the job's lock."""

    @asynccontextmanager
    async def try_acquire(self, name: str) -> AsyncGenerator[RunLease]:
        """A lease that never ends."""
        del name
        yield _EndlessLease()


class _EndlessLease:
    expired = False
    confirmation_due = False

    async def confirm(self) -> bool:
        return True
