"""One cycle of a periodic job: lock, cursor, deadline, outage guard, cancellation. Jobs bring only their rules."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, Generic, Protocol, TypeVar

from attrs import define, field, frozen

from .cursor import Cursor
from .cycle_report import AttemptReport, Cycle, CycleEnd, CycleReport, Outcome
from .finishing import asked_to_end
from .ports.clock import Clock
from .ports.entropy import NewId
from .ports.errors import DatabaseUnavailable, Misconfigured, PortError, RowRolledBack
from .ports.run_lock import RunLease, RunLocks
from .ports.telemetry import Telemetry
from .ports.tracing import UNTRACED, Tracing
from .stop_signal import StopSignal

Candidate = TypeVar("Candidate")

OUTAGE_THRESHOLD: Final = 3
"""Consecutive rows that found the database unreachable, after which the cycle stops asking."""


class PeriodicJob(Protocol[Candidate]):
    """What `run_cycle` knows of a job. Transactions belong to the job, because they differ."""

    @property
    def name(self) -> str:
        """The job's name: of its lock, its logs and its metrics."""
        ...

    async def candidates(self, *, as_of: datetime, after: Cursor | None, limit: int) -> Sequence[Candidate]:
        """The next rows due at ``as_of`` behind the cursor, in its order, at most ``limit``."""
        ...

    def cursor(self, candidate: Candidate) -> Cursor:
        """The candidate's place in the order of rows."""
        ...

    async def attempt(self, candidate: Candidate, cycle: Cycle) -> AttemptReport:
        """Deal with one row: everything it writes is committed when this returns, or nothing when it raises."""
        ...


@frozen(kw_only=True)
class CycleLimits:
    """Bounds of one cycle; ``lanes`` are the rows in hand at once, 1 means strictly in order."""

    batch_size: int
    max_run_duration: timedelta
    lanes: int


async def run_cycle(
    job: PeriodicJob[Candidate],
    *,
    limits: CycleLimits,
    locks: RunLocks,
    clock: Clock,
    telemetry: Telemetry,
    new_id: NewId,
    stop: StopSignal,
    tracing: Tracing = UNTRACED,
) -> CycleReport:
    """Run one cycle of ``job`` and report how it ended.

    Every row due at its start is tried at most once, in batches behind a cursor that only moves forward, until
    nothing is left, ``max_run_duration`` is over, a stop is requested, the run lock is not known to be held any
    more, or the database is gone. Rows in hand are finished in all these cases, but for what they still wait to begin
    (`Cycle.may_begin`). A row that fails by infrastructure, or by a defect, is reported and left as it was; the others
    go on.

    Failures of ports end in the report, never in an exception. Cancellation rolls back the rows in hand, releases
    the lock and propagates.
    """
    cycle = Cycle(
        job=job.name,
        run_id=new_id(),
        as_of=clock.now(),
        may_begin=lambda: run.end is None and not stop.requested,
    )
    started = clock.monotonic()
    run = _Run(
        job=job,
        cycle=cycle,
        limits=limits,
        clock=clock,
        telemetry=telemetry,
        tracing=tracing,
        stop=stop,
        deadline=started + limits.max_run_duration.total_seconds(),
    )
    try:
        async with locks.try_acquire(job.name) as lease:
            if lease is None:
                telemetry.cycle_skipped(cycle)
                return CycleReport(cycle=cycle, end=CycleEnd.SKIPPED, duration=timedelta(0))
            telemetry.cycle_started(cycle)
            with tracing.cycle(cycle):
                await run.drain(lease)
    except asyncio.CancelledError:
        telemetry.cycle_aborted(cycle, "Cancelled")
        raise
    except PortError as error:
        run.abort(error)
    report = CycleReport(
        cycle=cycle,
        end=run.end or CycleEnd.COMPLETED,
        duration=timedelta(seconds=clock.monotonic() - started),
        counts=dict(run.counts),
        error_code=run.error_code,
    )
    telemetry.cycle_completed(report)
    return report


@define(kw_only=True, eq=False)
class _Run(Generic[Candidate]):
    """The moving parts of one cycle; ``end`` is None while it may go on."""

    job: PeriodicJob[Candidate]
    cycle: Cycle
    limits: CycleLimits
    clock: Clock
    telemetry: Telemetry
    tracing: Tracing
    stop: StopSignal
    deadline: float
    counts: Counter[Outcome] = field(factory=Counter[Outcome])
    end: CycleEnd | None = None
    error_code: str | None = None
    _rows: deque[Candidate] = field(factory=deque[Candidate])
    _cursor: Cursor | None = None
    _read_to_end: bool = False
    _unreadable: Exception | None = None
    _unreachable_in_a_row: int = 0
    _reading: asyncio.Lock = field(factory=asyncio.Lock)
    _confirming: asyncio.Lock = field(factory=asyncio.Lock)

    async def drain(self, lease: RunLease) -> None:
        async with asyncio.TaskGroup() as lanes:
            for _ in range(self.limits.lanes):
                lanes.create_task(self._lane(lease))
        if self._unreadable is not None:
            self.abort(self._unreadable)

    def abort(self, error: Exception) -> None:
        if self.end is CycleEnd.ABORTED:
            return
        self.end = CycleEnd.ABORTED
        self.error_code = error.code if isinstance(error, PortError) else f"Defect:{type(error).__name__}"
        if isinstance(error, Misconfigured):
            self.telemetry.configuration_fault(self.cycle, error)
        elif not isinstance(error, PortError):
            self.telemetry.defect(self.cycle, error, None)
        self.telemetry.cycle_aborted(self.cycle, self.error_code)

    async def _lane(self, lease: RunLease) -> None:
        while self._has_more() and self._may_go_on() and await self._still_holder(lease):
            if self._should_read():
                await self._refill(lease)
            elif self._may_go_on():  # again, since the answer about the lock may have taken its time
                await self._attempt(self._rows.popleft())

    def _has_more(self) -> bool:
        """Asked first, so that a cycle whose last row is done has ended, and not run out of time."""
        return bool(self._rows) or not self._read_to_end

    def _should_read(self) -> bool:
        """An empty window makes a lane wait for the next batch; a low one makes a lane read it, if none does."""
        return not self._rows or (self._runs_low() and not self._reading.locked())

    def _runs_low(self) -> bool:
        """Two rows are left for each other lane, so that these work on while this one reads."""
        low = min(2 * (self.limits.lanes - 1), self.limits.batch_size // 2)
        return not self._read_to_end and len(self._rows) <= low

    async def _refill(self, lease: RunLease) -> None:
        """The lanes share one window over the rows: while one lane reads the next batch, the others work on."""
        async with self._reading:
            if self._runs_low() and self._may_go_on() and await self._confirm(lease):
                await self._read_batch()

    async def _read_batch(self) -> None:
        try:
            batch = await self.job.candidates(
                as_of=self.cycle.as_of, after=self._cursor, limit=self.limits.batch_size
            )
        except Exception as error:  # noqa: BLE001 - what was read before is finished first
            self._unreadable, self._read_to_end = error, True
            return
        self._read_to_end = len(batch) < self.limits.batch_size
        if batch:
            self._cursor = self.job.cursor(batch[-1])
            self._rows.extend(batch)
            self.telemetry.batch_claimed(self.cycle, len(batch))

    async def _attempt(self, row: Candidate) -> None:
        try:
            with self.tracing.attempt(self.cycle) as span:
                report = await self.job.attempt(row, self.cycle)
                span.ended(report)
        except Misconfigured as error:
            self.counts[Outcome.ROLLED_BACK] += 1
            self.abort(error)
        except DatabaseUnavailable as error:
            self._rolled_back(row, error)
            self._unreachable_in_a_row += 1
            if self._unreachable_in_a_row >= OUTAGE_THRESHOLD:
                self.abort(error)
        except RowRolledBack as error:
            self._unreachable_in_a_row = 0
            self._rolled_back(row, error)
        except asyncio.CancelledError as error:
            if asked_to_end():
                raise
            self._defect(row, error)  # a cancellation of the job's own making would end its lane unnoticed
        except Exception as error:  # noqa: BLE001 - one row's defect must not stop the others
            self._defect(row, error)
        else:
            self._unreachable_in_a_row = 0
            self.counts[report.outcome] += 1
            self.telemetry.attempted(self.cycle, report)

    def _defect(self, row: Candidate, error: BaseException) -> None:
        self._unreachable_in_a_row = 0
        self.counts[Outcome.ROLLED_BACK] += 1
        self.telemetry.defect(self.cycle, error, self.job.cursor(row).id)

    def _rolled_back(self, row: Candidate, error: PortError) -> None:
        self.counts[Outcome.ROLLED_BACK] += 1
        self.telemetry.row_rolled_back(self.cycle, error, self.job.cursor(row).id)

    def _may_go_on(self) -> bool:
        if self.end is None:
            if self.stop.requested:
                self.end = CycleEnd.STOPPED
            elif self.clock.monotonic() >= self.deadline:
                self.end = CycleEnd.OUT_OF_TIME
        return self.end is None

    async def _still_holder(self, lease: RunLease) -> bool:
        """Cheap before every row: only a lease in the second half of its TTL is asked for."""
        if lease.expired:
            return self._lost()
        if not lease.confirmation_due:
            return True
        async with self._confirming:  # one lane asks, the others use its answer
            return await self._confirm(lease) if lease.confirmation_due else not lease.expired or self._lost()

    async def _confirm(self, lease: RunLease) -> bool:
        return await lease.confirm() or self._lost()

    def _lost(self) -> bool:
        if self.end is None:
            self.end = CycleEnd.LOCK_LOST
            self.telemetry.lock_lost(self.cycle)
        return False
