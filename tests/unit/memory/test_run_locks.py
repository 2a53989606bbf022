from __future__ import annotations

from datetime import timedelta

import pytest
from messenger_jobs.adapters.memory.clock import ManualClock
from messenger_jobs.adapters.memory.run_locks import MemoryRunLocks, RunLockServer
from messenger_jobs.adapters.memory.switch import Phase
from messenger_jobs.application.ports.errors import DatabaseUnavailable

from tests.unit.application.cycles import ScriptedSwitch

TTL = timedelta(minutes=5)
JOB = "job"
GONE = DatabaseUnavailable("CONNECTION_LOST", "gone")


async def test_server_goes_by_its_own_clock() -> None:
    servers, ours = ManualClock(), ManualClock()
    server = RunLockServer(servers, TTL)
    async with MemoryRunLocks(server, ours).try_acquire(JOB) as lease:
        assert lease is not None
        servers.advance(TTL)
        assert not lease.expired
        assert not await lease.confirm()
        assert lease.expired


async def test_lease_ends_before_the_server_can_give_the_lock_to_others() -> None:
    clock = ManualClock()
    locks = MemoryRunLocks(RunLockServer(clock, TTL), clock)
    async with locks.try_acquire(JOB) as lease:
        assert lease is not None
        clock.advance(TTL * 0.95)
        assert lease.expired
        assert not await lease.confirm()
        async with locks.try_acquire(JOB) as other:
            assert other is None


async def test_lease_counts_from_the_question_and_not_from_the_answer() -> None:
    clock, switch = ManualClock(), ScriptedSwitch()
    switch.at("acquire lock", Phase.ANSWERED, lambda: clock.advance(TTL * 0.6))
    async with MemoryRunLocks(RunLockServer(clock, TTL), clock, switch=switch).try_acquire(JOB) as lease:
        assert lease is not None
        assert lease.confirmation_due
        switch.at("confirm lock", Phase.ANSWERED, lambda: clock.advance(TTL * 0.6))
        assert await lease.confirm()
        assert lease.confirmation_due


async def test_answer_that_comes_after_the_lease_has_expired_is_no_confirmation() -> None:
    clock, switch = ManualClock(), ScriptedSwitch()
    async with MemoryRunLocks(RunLockServer(clock, TTL), clock, switch=switch).try_acquire(JOB) as lease:
        assert lease is not None
        switch.at("confirm lock", Phase.ANSWERED, lambda: clock.advance(TTL))
        assert not await lease.confirm()
        assert lease.expired


@pytest.mark.parametrize("phase", Phase)
async def test_question_without_an_answer_is_no_confirmation_now_or_later(phase: Phase) -> None:
    clock, switch = ManualClock(), ScriptedSwitch()
    async with MemoryRunLocks(RunLockServer(clock, TTL), clock, switch=switch).try_acquire(JOB) as lease:
        assert lease is not None
        switch.at("confirm lock", phase, GONE)
        assert not await lease.confirm()
        assert lease.expired
        assert not await lease.confirm()


@pytest.mark.parametrize("operation", ["acquire lock", "release lock"])
async def test_lock_is_free_when_a_request_fails(operation: str) -> None:
    clock, switch = ManualClock(), ScriptedSwitch()
    server = RunLockServer(clock, TTL)
    switch.at(operation, Phase.SENT, GONE)
    try:
        async with MemoryRunLocks(server, clock, switch=switch).try_acquire(JOB):
            assert operation == "release lock"
    except DatabaseUnavailable:
        assert operation == "acquire lock"
    assert server.held == []
