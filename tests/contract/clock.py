"""What every `Clock` must show."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from datetime import UTC, timedelta

import pytest
from messenger_jobs.application.ports.clock import Clock

SHORT = 0.01
"""Seconds; long enough to be noticed, short enough to be waited for."""


class ClockHarness(ABC):
    """A clock, and a way to let time pass."""

    clock: Clock

    @abstractmethod
    async def pass_time(self, seconds: float) -> None:
        """Return once at least these seconds have passed, and whoever had to wake up by then has."""


class ClockContract:
    """Time goes on, in UTC, and wakes sleepers when it is time."""

    @pytest.fixture
    async def harness(self) -> ClockHarness:
        raise NotImplementedError("an adapter's subclass says what its harness is")

    async def test_now_is_aware_and_in_utc(self, harness: ClockHarness) -> None:
        assert harness.clock.now().utcoffset() == timedelta(0)
        assert harness.clock.now().tzinfo is UTC

    async def test_both_times_go_on_together(self, harness: ClockHarness) -> None:
        wall, monotonic = harness.clock.now(), harness.clock.monotonic()
        await harness.pass_time(SHORT)
        assert harness.clock.now() - wall >= timedelta(seconds=SHORT * 0.9)
        assert harness.clock.monotonic() - monotonic >= SHORT

    async def test_sleeper_wakes_no_earlier_than_asked(self, harness: ClockHarness) -> None:
        started = harness.clock.monotonic()
        sleeper = asyncio.create_task(harness.clock.sleep(SHORT))
        await asyncio.sleep(0)
        assert not sleeper.done()
        await harness.pass_time(2 * SHORT)
        await sleeper
        # An event loop may wake up to its resolution too early.
        assert harness.clock.monotonic() - started >= SHORT * 0.9

    async def test_sleepers_wake_in_the_order_of_their_times(self, harness: ClockHarness) -> None:
        woken: list[int] = []

        async def sleep(parts: int) -> None:
            await harness.clock.sleep(parts * SHORT)
            woken.append(parts)

        sleepers = [asyncio.create_task(sleep(parts)) for parts in (3, 1, 2)]
        await asyncio.sleep(0)
        await harness.pass_time(4 * SHORT)
        await asyncio.gather(*sleepers)
        assert woken == [1, 2, 3]

    @pytest.mark.parametrize("seconds", [0, -1, -1e9])
    async def test_no_time_to_sleep_is_no_wait(self, harness: ClockHarness, seconds: float) -> None:
        await asyncio.wait_for(harness.clock.sleep(seconds), timeout=10)

    async def test_sleeping_nothing_lets_others_run(self, harness: ClockHarness) -> None:
        ran = asyncio.create_task(asyncio.sleep(0))
        await harness.clock.sleep(0)
        await harness.clock.sleep(0)
        assert ran.done()

    async def test_cancelled_sleeper_wakes_at_once(self, harness: ClockHarness) -> None:
        sleeper = asyncio.create_task(harness.clock.sleep(1e6))
        await asyncio.sleep(0)
        sleeper.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sleeper
