from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from attrs import evolve
from messenger_jobs.adapters.memory.provision_rows import committed_provision
from messenger_jobs.adapters.memory.switch import Phase
from messenger_jobs.application.ports.errors import DatabaseUnavailable
from messenger_jobs.application.requeue_provisions import RequeueProvisions
from messenger_jobs.application.requeue_report import RequeueReport

from tests.support.builders import (
    NOW,
    PROVISION_ID,
    RULES,
    a_chat,
    a_failed_provision,
    a_provision,
    a_ready_provision,
    some_id,
)
from tests.unit.application.deals import Deals

LATER = NOW + timedelta(hours=1)
POISON = a_failed_provision(attempts=RULES.max_attempts, version=8)
OTHER = evolve(POISON, id=some_id(1000), deal_id=some_id(1001))


@pytest.fixture
def deals() -> Deals:
    deals = Deals()
    deals.clock.advance(timedelta(hours=1))
    return deals


@pytest.fixture
def requeue(deals: Deals) -> RequeueProvisions:
    return RequeueProvisions(store=deals.store, clock=deals.clock, rules=RULES)


async def test_poison_row_starts_over(deals: Deals, requeue: RequeueProvisions) -> None:
    deals.put(POISON)
    report = await requeue.rows([PROVISION_ID])
    assert report == RequeueReport(requeued=(PROVISION_ID,), refused={})
    assert deals.provision == POISON.requeued(now=LATER)
    assert deals.provision.schedule.last_error == "ProvisionGuard:NO_MEMBERS"
    deals.as_of = deals.clock.now()
    assert len(await deals.read()) == 1


async def test_row_is_named_by_its_deal_as_well(deals: Deals, requeue: RequeueProvisions) -> None:
    deals.put(POISON, OTHER)
    report = await requeue.rows([POISON.deal_id])
    assert report == RequeueReport(requeued=(POISON.deal_id,), refused={})
    assert deals.provision == POISON.requeued(now=LATER)
    assert committed_provision(deals.database, OTHER.id) == OTHER


async def test_row_whose_attempts_are_not_used_up_starts_over_as_well(
    deals: Deals, requeue: RequeueProvisions
) -> None:
    deals.put(a_provision(attempts=2, next_attempt_at=LATER + timedelta(minutes=9)))
    await requeue.rows([PROVISION_ID])
    assert (deals.provision.schedule.attempts, deals.provision.schedule.next_attempt_at) == (0, LATER)


async def test_repeating_is_harmless(deals: Deals, requeue: RequeueProvisions) -> None:
    deals.put(POISON)
    assert (await requeue.rows([PROVISION_ID, PROVISION_ID])).requeued == (PROVISION_ID,)
    assert deals.provision.version == 9
    assert (await requeue.rows([PROVISION_ID])).requeued == (PROVISION_ID,)
    assert deals.provision.schedule.attempts == 0


async def test_ready_and_missing_rows_are_refused_and_the_others_go_on(
    deals: Deals, requeue: RequeueProvisions
) -> None:
    deals.put(a_chat(), a_ready_provision(), OTHER)
    missing = some_id(404)
    report = await requeue.rows([PROVISION_ID, missing, OTHER.id])
    assert report.requeued == (OTHER.id,)
    assert report.refused == {
        PROVISION_ID: "a ready provision stays ready",
        missing: "there is no such provision",
    }
    assert deals.provision == a_ready_provision()


async def test_row_that_stays_locked_is_refused_and_the_others_go_on(
    deals: Deals, requeue: RequeueProvisions
) -> None:
    deals.put(POISON, OTHER)
    async with deals.store.begin() as holder:
        await holder.lock(PROVISION_ID)
        requeuing = asyncio.create_task(requeue.rows([PROVISION_ID, OTHER.id]))
        for _ in range(20):
            await asyncio.sleep(0)
        deals.clock.advance(timedelta(seconds=5))
        report = await requeuing
    assert report.requeued == (OTHER.id,)
    assert report.refused == {PROVISION_ID: "waited too long for a lock"}
    assert deals.provision == POISON


async def test_row_that_somebody_finishes_meanwhile_is_left_alone(
    deals: Deals, requeue: RequeueProvisions
) -> None:
    deals.put(POISON)
    deals.switch.at("lock", Phase.SENT, deals.putting(a_chat(), evolve(a_ready_provision(), version=9)))
    report = await requeue.rows([PROVISION_ID])
    assert report.refused == {PROVISION_ID: "a ready provision stays ready"}


async def test_all_poison_rows_are_found_by_their_error(deals: Deals, requeue: RequeueProvisions) -> None:
    rejected = evolve(OTHER, schedule=evolve(OTHER.schedule, last_error="Postgres:22021"))
    young = evolve(a_provision(), id=some_id(2000), deal_id=some_id(2001))
    deals.put(POISON, rejected, young)
    assert (await requeue.poison(error="Postgres:22021")).requeued == (rejected.id,)
    assert (await requeue.poison(error="Postgres:99999")).requeued == ()
    assert (await requeue.poison()).requeued == (PROVISION_ID,)
    assert (await requeue.poison()).requeued == ()
    assert committed_provision(deals.database, young.id) == young


async def test_dry_run_says_the_same_and_writes_nothing(deals: Deals, requeue: RequeueProvisions) -> None:
    deals.put(a_chat(), POISON, evolve(a_ready_provision(), id=some_id(3), deal_id=some_id(33)))
    ids = [PROVISION_ID, some_id(3), some_id(404)]
    rehearsed = await requeue.rows(ids, dry_run=True)
    assert (await requeue.poison(dry_run=True)).requeued == (PROVISION_ID,)
    assert deals.provision == POISON
    assert "commit" not in deals.operations()
    assert rehearsed == await requeue.rows(ids)


async def test_database_that_is_gone_is_told_as_it_is(deals: Deals, requeue: RequeueProvisions) -> None:
    deals.put(POISON)
    deals.switch.at("begin", Phase.SENT, DatabaseUnavailable("CONNECTION_LOST", "gone"))
    with pytest.raises(DatabaseUnavailable):
        await requeue.rows([PROVISION_ID])
    assert deals.database.open_transactions == 0
