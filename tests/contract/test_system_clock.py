from __future__ import annotations

import asyncio

import pytest
from messenger_jobs.adapters.system.clock import SystemClock

from tests.contract.clock import ClockContract, ClockHarness


class SystemClockHarness(ClockHarness):
    def __init__(self) -> None:
        self.clock = SystemClock()

    async def pass_time(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class TestSystemClock(ClockContract):
    @pytest.fixture
    async def harness(self) -> SystemClockHarness:
        return SystemClockHarness()
