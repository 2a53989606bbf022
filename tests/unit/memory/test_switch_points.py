"""Every await of a port is a place where a simulation may step in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from messenger_jobs.adapters.memory.clock import ManualClock
from messenger_jobs.adapters.memory.provision_rows import put_provision
from messenger_jobs.adapters.memory.provisioning import MemoryProvisioningStore, MemoryProvisioningUnit
from messenger_jobs.adapters.memory.run_locks import MemoryRunLocks, RunLockServer
from messenger_jobs.adapters.memory.schema import MessengerDatabase
from messenger_jobs.adapters.memory.switch import Phase, Step
from messenger_jobs.domain.provisioning import ProvisionSnapshot

from tests.contract.outbox import a_message
from tests.contract.provisioning_harness import refused
from tests.support.builders import NOW, PROVISION_ID, RULES, a_failed_provision, a_provision
from tests.unit.application.cycles import TTL, ScriptedSwitch

SEEN = ProvisionSnapshot(provision=a_provision())
OUT_OF_DATE = ProvisionSnapshot(provision=a_provision(version=7))


def steps(*operations: str) -> list[Step]:
    return [Step(operation, phase) for operation in operations for phase in Phase]


async def open_savepoint(work: MemoryProvisioningUnit) -> None:
    async with work.savepoint():
        pass


@pytest.mark.parametrize(
    ("call", "operation"),
    [
        (lambda store: store.candidates(as_of=NOW, after=None, limit=1, rules=RULES), "candidates"),
        (lambda store: store.settle(SEEN, refused(SEEN), None, as_of=NOW, rules=RULES), "settle"),
        (lambda store: store.backlog(as_of=NOW, rules=RULES), "backlog"),
        (lambda store: store.poison_ids(rules=RULES), "poison ids"),
    ],
)
async def test_call_of_the_store_is_one_exchange(
    call: Callable[[MemoryProvisioningStore], Awaitable[object]], operation: str
) -> None:
    switch = ScriptedSwitch()
    database = MessengerDatabase(ManualClock(NOW))
    put_provision(database, a_provision())
    await call(MemoryProvisioningStore(database, switch=switch))
    assert switch.steps == steps(operation)


@pytest.mark.parametrize("verdict_on", [SEEN, OUT_OF_DATE], ids=["written", "out of date"])
async def test_statement_in_autocommit_mode_unlocks_before_it_is_answered(
    verdict_on: ProvisionSnapshot,
) -> None:
    database = MessengerDatabase(ManualClock(NOW))
    held: list[tuple[Phase, int]] = []

    async def look(step: Step) -> None:
        held.append((step.phase, database.locks.held))

    put_provision(database, a_provision())
    store = MemoryProvisioningStore(database, switch=look)
    settled = await store.settle(verdict_on, refused(verdict_on), None, as_of=NOW, rules=RULES)
    assert settled is (verdict_on is SEEN)
    assert held == [(Phase.SENT, 0), (Phase.ANSWERED, 0)]


@pytest.mark.parametrize(
    ("call", "operations"),
    [
        (lambda work: work.claim(PROVISION_ID, as_of=NOW, rules=RULES), ["claim"]),
        (lambda work: work.lock(PROVISION_ID), ["lock"]),
        (lambda work: work.refresh(SEEN), ["refresh"]),
        (lambda work: work.settle(SEEN, refused(SEEN)), ["settle"]),
        (lambda work: work.requeue(a_failed_provision().requeued(now=NOW)), ["requeue"]),
        (lambda work: work.outbox.add(a_message()), ["add message"]),
        (open_savepoint, ["savepoint", "release savepoint"]),
        (lambda work: work.commit(), ["commit"]),
    ],
)
async def test_call_of_a_unit_is_one_exchange(
    call: Callable[[MemoryProvisioningUnit], Awaitable[object]], operations: list[str]
) -> None:
    switch = ScriptedSwitch()
    database = MessengerDatabase(ManualClock(NOW))
    put_provision(database, a_provision())
    async with MemoryProvisioningStore(database, switch=switch).begin() as work:
        assert switch.steps == steps("begin")
        switch.steps.clear()
        await call(work)
        assert switch.steps == steps(*operations)


async def test_calls_of_the_run_locks_are_exchanges() -> None:
    switch, clock = ScriptedSwitch(), ManualClock()
    async with MemoryRunLocks(RunLockServer(clock, TTL), clock, switch=switch).try_acquire("job") as lease:
        assert lease is not None
        await lease.confirm()
    assert switch.steps == [*steps("acquire lock", "confirm lock"), Step("release lock", Phase.SENT)]
