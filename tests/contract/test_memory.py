"""The memory adapter keeps every port's contract."""

from __future__ import annotations

from datetime import timedelta

import pytest
from messenger_jobs.adapters.memory.clock import ManualClock
from messenger_jobs.adapters.memory.run_locks import MemoryRunLocks, RunLockServer

from tests.contract.clock import ClockContract, ClockHarness
from tests.contract.memory_harness import MemoryProvisioningHarness, let_everybody_run
from tests.contract.outbox import OutboxContract
from tests.contract.provisioning_store import ProvisioningStoreContract
from tests.contract.run_locks import RunLocksContract, RunLocksHarness

TTL = timedelta(minutes=5)


class MemoryRunLocksHarness(RunLocksHarness):
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.server = RunLockServer(self.clock, TTL)
        self.locks = MemoryRunLocks(self.server, self.clock)
        self.other = MemoryRunLocks(self.server, self.clock)

    async def pass_time(self, part: float) -> None:
        self.clock.advance(TTL * part)

    async def end_session(self, name: str) -> None:
        self.server.end_session(name)

    async def assert_nothing_left(self) -> None:
        assert self.server.held == []


class ManualClockHarness(ClockHarness):
    def __init__(self) -> None:
        self.clock = self.manual = ManualClock()

    async def pass_time(self, seconds: float) -> None:
        self.manual.advance(timedelta(seconds=seconds))
        await let_everybody_run()


class TestMemoryProvisioningStore(ProvisioningStoreContract):
    @pytest.fixture
    async def harness(self) -> MemoryProvisioningHarness:
        return MemoryProvisioningHarness()


class TestMemoryOutbox(OutboxContract):
    @pytest.fixture
    async def harness(self) -> MemoryProvisioningHarness:
        return MemoryProvisioningHarness()


class TestMemoryRunLocks(RunLocksContract):
    @pytest.fixture
    async def harness(self) -> MemoryRunLocksHarness:
        return MemoryRunLocksHarness()


class TestManualClock(ClockContract):
    @pytest.fixture
    async def harness(self) -> ManualClockHarness:
        return ManualClockHarness()
