from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from attrs import define, field
from messenger_jobs.adapters.memory.clock import ManualClock
from messenger_jobs.application.periodic import run_periodically
from messenger_jobs.application.stop_signal import StopSignal

MINUTE = timedelta(minutes=1)


@define
class Cadence:
    """A periodic work whose duration the test decides, and when it was started, in seconds."""

    clock: ManualClock = field(factory=ManualClock)
    stop: StopSignal = field(factory=StopSignal)
    durations: list[float] = field(factory=list[float])
    starts: list[float] = field(factory=list[float])
    ends: int = 0

    async def work(self) -> None:
        self.starts.append(self.clock.monotonic())
        if self.durations:
            await self.clock.sleep(self.durations.pop(0))
        self.ends += 1

    async def pass_time(self, seconds: float) -> None:
        """Time passes from one sleeper to the next, and everybody acts at their time."""
        end = self.clock.monotonic() + seconds
        await settle()
        while (
            wait := self.clock.time_to_next
        ) is not None and self.clock.monotonic() + wait.total_seconds() <= end:
            self.clock.advance(wait)
            await settle()
        self.clock.advance(timedelta(seconds=end - self.clock.monotonic()))
        await settle()

    @asynccontextmanager
    async def running(self, interval: timedelta = MINUTE) -> AsyncGenerator[asyncio.Task[None]]:
        loop = run_periodically(self.work, interval=interval, clock=self.clock, stop=self.stop)
        task = asyncio.create_task(loop)
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.wait({task})


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture
def cadence() -> Cadence:
    return Cadence()


async def test_first_work_starts_at_once_and_the_others_on_the_grid(cadence: Cadence) -> None:
    async with cadence.running():
        await cadence.pass_time(185)
    assert cadence.starts == [0, 60, 120, 180]


async def test_grid_begins_with_the_loop_however_long_the_machine_has_been_up(cadence: Cadence) -> None:
    cadence.clock.advance(timedelta(seconds=1000.5))
    async with cadence.running():
        await cadence.pass_time(125)
    assert cadence.starts == [1000.5, 1060.5, 1120.5]


async def test_duration_of_the_work_does_not_move_the_grid(cadence: Cadence) -> None:
    cadence.durations = [10, 59.999999, 0.5]
    async with cadence.running():
        await cadence.pass_time(190)
    assert cadence.starts == [0, 60, 120, 180]


async def test_tick_never_starts_while_the_work_runs(cadence: Cadence) -> None:
    cadence.durations = [150]
    async with cadence.running():
        await cadence.pass_time(149)
        assert cadence.starts == [0]


async def test_missed_ticks_collapse_into_one_that_starts_at_once_and_the_grid_stays(
    cadence: Cadence,
) -> None:
    cadence.durations = [200]  # the ticks at 60, 120 and 180 are missed
    async with cadence.running():
        await cadence.pass_time(310)
    assert cadence.starts == [0, 200, 240, 300]


async def test_work_that_ends_exactly_at_a_tick_takes_that_tick(cadence: Cadence) -> None:
    cadence.durations = [60, 60]
    async with cadence.running():
        await cadence.pass_time(185)
    assert cadence.starts == [0, 60, 120, 180]


async def test_work_that_is_always_too_slow_runs_without_a_pause(cadence: Cadence) -> None:
    cadence.durations = [90] * 4
    async with cadence.running():
        await cadence.pass_time(300)
    assert cadence.starts == [0, 90, 180, 270]


async def test_pause_of_the_whole_process_costs_one_tick(cadence: Cadence) -> None:
    async with cadence.running():
        await cadence.pass_time(1)
        cadence.clock.advance(timedelta(minutes=10))
        await cadence.pass_time(0)
        assert cadence.starts == [0, 601]
        await cadence.pass_time(125)
    # The tick at 660 is on the grid again.
    assert cadence.starts == [0, 601, 660, 720]


async def test_tiny_interval_does_not_drift(cadence: Cadence) -> None:
    async with cadence.running(timedelta(milliseconds=100)):
        await cadence.pass_time(5.05)
    assert len(cadence.starts) == 51
    assert cadence.starts == pytest.approx([tick / 10 for tick in range(51)], abs=1e-5)


async def test_stop_wakes_the_sleep_and_ends_the_loop(cadence: Cadence) -> None:
    async with cadence.running() as loop:
        await cadence.pass_time(70)
        cadence.stop.request()
        await settle()
        assert loop.done()
    assert cadence.starts == [0, 60]
    assert cadence.clock.time_to_next is None


async def test_stop_during_the_work_lets_it_finish(cadence: Cadence) -> None:
    cadence.durations = [90]
    async with cadence.running() as loop:
        await cadence.pass_time(30)
        cadence.stop.request()
        await settle()
        assert (loop.done(), cadence.ends) == (False, 0)
        await cadence.pass_time(60)
        assert (loop.done(), cadence.ends) == (True, 1)


async def test_stop_before_the_start_means_no_work(cadence: Cadence) -> None:
    cadence.stop.request()
    async with cadence.running() as loop:
        await settle()
        assert loop.done()
    assert cadence.starts == []


async def test_what_the_work_raises_ends_the_loop(cadence: Cadence) -> None:
    async def fail() -> None:
        raise LookupError

    with pytest.raises(LookupError):
        await run_periodically(fail, interval=MINUTE, clock=cadence.clock, stop=cadence.stop)


async def test_cancellation_during_the_sleep_ends_it_and_leaves_no_task(cadence: Cadence) -> None:
    others = asyncio.all_tasks()
    async with cadence.running() as loop:
        await settle()
        loop.cancel()
        with pytest.raises(asyncio.CancelledError):
            await loop
    assert asyncio.all_tasks() == others
    assert cadence.clock.time_to_next is None
