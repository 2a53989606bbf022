"""Everything that a cycle needs, in memory, and a job that does as it is told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

from attrs import define, field
from messenger_jobs.adapters.memory.clock import ManualClock
from messenger_jobs.adapters.memory.run_locks import MemoryRunLocks, RunLockServer
from messenger_jobs.adapters.memory.switch import Phase, Step
from messenger_jobs.adapters.memory.telemetry import MemoryTelemetry
from messenger_jobs.application.cursor import Cursor
from messenger_jobs.application.cycle_report import AttemptReport, Cycle, CycleReport, Outcome
from messenger_jobs.application.ports.entropy import NewId
from messenger_jobs.application.ports.run_lock import RunLocks
from messenger_jobs.application.ports.tracing import UNTRACED, Tracing
from messenger_jobs.application.run_cycle import CycleLimits, PeriodicJob, run_cycle
from messenger_jobs.application.stop_signal import StopSignal

from tests.support.builders import NOW, ids_from, some_id

TTL = timedelta(minutes=5)
MAX_RUN = timedelta(minutes=3)
JOB = "scripted-job"

Candidate = TypeVar("Candidate")
Action = Callable[[], Awaitable[object] | object] | BaseException


@define
class ScriptedJob:
    """Its rows are the numbers 1 to `rows`; an attempt does what `script` says of its row, or succeeds."""

    rows: int
    script: Mapping[int, Action] = field(factory=dict[int, Action])
    reading: list[Action] = field(factory=list[Action])
    """What happens first at the next readings of a batch."""
    name: str = JOB
    readings: list[tuple[datetime, int | None, int]] = field(factory=list[tuple[datetime, int | None, int]])
    started: list[int] = field(factory=list[int])
    finished: list[int] = field(factory=list[int])
    cancelled: list[int] = field(factory=list[int])
    in_hand: int = 0
    most_in_hand: int = 0

    async def candidates(self, *, as_of: datetime, after: Cursor | None, limit: int) -> Sequence[int]:
        self.readings.append((as_of, None if after is None else after.id.int, limit))
        if self.reading:
            await perform(self.reading.pop(0))
        await asyncio.sleep(0)
        first = 1 if after is None else after.id.int + 1
        return list(range(first, min(first + limit, self.rows + 1)))

    def cursor(self, candidate: int) -> Cursor:
        return Cursor(next_attempt_at=NOW, id=some_id(candidate))

    async def attempt(self, candidate: int, cycle: Cycle) -> AttemptReport:
        del cycle
        self.started.append(candidate)
        self.in_hand += 1
        self.most_in_hand = max(self.most_in_hand, self.in_hand)
        try:
            await asyncio.sleep(0)
            if candidate in self.script:
                await perform(self.script[candidate])
        except asyncio.CancelledError:
            self.cancelled.append(candidate)
            raise
        finally:
            self.in_hand -= 1
        self.finished.append(candidate)
        return AttemptReport(outcome=Outcome.PROVISIONED, subject={"deal_id": some_id(candidate)})


@define
class ScriptedSwitch:
    """A port's switch at which something happens, once, at a step of the script."""

    script: list[tuple[Step, Action]] = field(factory=list[tuple[Step, Action]])
    steps: list[Step] = field(factory=list[Step])

    def at(self, operation: str, phase: Phase, action: Action) -> None:
        self.script.append((Step(operation, phase), action))

    async def __call__(self, step: Step) -> None:
        self.steps.append(step)
        await asyncio.sleep(0)
        for entry in self.script:
            if entry[0] == step:
                self.script.remove(entry)
                await perform(entry[1])
                return


async def perform(action: Action) -> None:
    if isinstance(action, BaseException):
        raise action
    doing = action()
    if isinstance(doing, Awaitable):
        await doing


@define
class Bench:
    """One process with its clock, locks, telemetry and stop signal."""

    clock: ManualClock = field(factory=lambda: ManualClock(NOW))
    telemetry: MemoryTelemetry = field(factory=MemoryTelemetry)
    stop: StopSignal = field(factory=StopSignal)
    new_id: NewId = field(factory=ids_from)
    lock_switch: ScriptedSwitch = field(factory=ScriptedSwitch)
    server: RunLockServer = field(init=False)
    locks: RunLocks = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.server = RunLockServer(self.clock, TTL)
        self.locks = MemoryRunLocks(self.server, self.clock, switch=self.lock_switch)

    async def run(
        self,
        job: PeriodicJob[Candidate],
        *,
        batch_size: int = 100,
        lanes: int = 1,
        max_run_duration: timedelta = MAX_RUN,
        tracing: Tracing = UNTRACED,
    ) -> CycleReport:
        return await run_cycle(
            job,
            limits=CycleLimits(batch_size=batch_size, max_run_duration=max_run_duration, lanes=lanes),
            locks=self.locks,
            clock=self.clock,
            telemetry=self.telemetry,
            new_id=self.new_id,
            stop=self.stop,
            tracing=tracing,
        )

    def passing(self, time: timedelta) -> Callable[[], None]:
        """An action that takes this long."""
        return lambda: self.clock.advance(time)
