from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from attrs import evolve
from messenger_jobs.adapters.memory.provision_rows import provision_row
from messenger_jobs.adapters.memory.switch import Phase
from messenger_jobs.application.cycle_report import AttemptReport, CycleEnd, Outcome
from messenger_jobs.application.ports.errors import DatabaseUnavailable, DataRejected, RowRolledBack
from messenger_jobs.domain.deal_chat_provision import DealChatProvision, ProvisionStatus

from tests.support.builders import (
    BUYER,
    CHAT_ID,
    DEAL_ID,
    NOW,
    PROVISION_ID,
    RULES,
    SELLER,
    a_chat,
    a_failed_provision,
    a_participant,
    a_provision,
    a_ready_provision,
    some_id,
)
from tests.unit.application.deals import RUN_ID, Deals

GONE = DatabaseUnavailable("CONNECTION_LOST", "the connection to the database failed")
FAST = ["candidates", "settle"]
SLOW = [
    "candidates",
    "settle",
    "begin",
    "claim",
    "savepoint",
    "settle",
    "release savepoint",
    "add message",
    "commit",
]


@pytest.fixture
def deals() -> Deals:
    return Deals()


# The usual way


async def test_stuck_deal_gets_its_chat(deals: Deals) -> None:
    deals.put(a_provision())
    deals.clock.advance(timedelta(seconds=7))
    report = await deals.attempt()
    (chat,) = deals.chats
    assert (chat.deal_id, chat.kind, chat.status, chat.title) == (DEAL_ID, "Deal", "Active", "Flat 12")
    assert {row.user_id: row.role for row in deals.participants} == {BUYER: "Buyer", SELLER: "Seller"}
    assert [entry.type for entry in deals.feed] == ["DealChatProvisioned"]
    assert report == AttemptReport(
        outcome=Outcome.PROVISIONED, subject={"deal_id": DEAL_ID, "chat_id": chat.id}, attempts=1
    )
    assert deals.provision.status is ProvisionStatus.READY
    assert deals.provision.updated_at == NOW + timedelta(seconds=7)


async def test_ready_is_told_with_the_run_as_its_correlation(deals: Deals) -> None:
    deals.put(a_provision())
    await deals.attempt()
    (message,) = deals.messages
    assert message.payload["status"] == "Ready"
    assert message.headers["correlation-id"] == str(RUN_ID)


async def test_usual_attempt_costs_one_statement(deals: Deals) -> None:
    deals.put(a_provision())
    await deals.attempt()
    assert deals.operations() == FAST


async def test_schedule_counts_from_the_attempt_and_not_from_the_cycle(deals: Deals) -> None:
    deals.put(a_provision(members=()))
    deals.clock.advance(timedelta(minutes=2))
    await deals.attempt()
    assert deals.provision.schedule.next_attempt_at == NOW + timedelta(minutes=2) + timedelta(minutes=1)


async def test_delay_grows_and_is_shortened_by_the_spread() -> None:
    deals = Deals(spread=lambda: 0.5)
    deals.put(evolve(a_failed_provision(attempts=2), members=()))
    await deals.attempt()
    assert deals.provision.schedule.next_attempt_at == NOW + timedelta(minutes=4) * 0.9


# Refusals


async def test_refused_attempt_counts_and_is_not_told(deals: Deals) -> None:
    deals.put(a_provision(members=()))
    report = await deals.attempt()
    assert report == AttemptReport(
        outcome=Outcome.RETRIED,
        subject={"deal_id": DEAL_ID},
        attempts=1,
        error_code="ProvisionGuard:NO_MEMBERS",
    )
    assert (deals.provision.status, deals.provision.schedule.attempts) == (ProvisionStatus.FAILED, 1)
    assert deals.provision.schedule.last_error == "ProvisionGuard:NO_MEMBERS"
    assert (deals.messages, deals.chats) == ([], [])


async def test_last_refused_attempt_is_told_once_and_never_tried_again(deals: Deals) -> None:
    deals.put(a_provision(members=()))
    outcomes = []
    for _ in range(RULES.max_attempts):
        outcomes.append((await deals.attempt()).outcome)
        deals.clock.advance(timedelta(minutes=15))
        deals.as_of = deals.clock.now()
    assert outcomes == [Outcome.RETRIED] * 7 + [Outcome.FAILED]
    assert deals.statuses_told == ["Failed"]
    assert await deals.read() == []


async def test_deal_that_is_repaired_before_its_last_attempt_is_told_ready_only(deals: Deals) -> None:
    deals.put(evolve(a_failed_provision(attempts=RULES.max_attempts - 1)))
    assert (await deals.attempt()).outcome is Outcome.PROVISIONED
    assert deals.statuses_told == ["Ready"]
    assert deals.provision.schedule.last_error is None


async def test_values_that_the_database_refuses_count_as_a_failed_attempt(deals: Deals) -> None:
    deals.put(a_provision())
    deals.switch.at("settle", Phase.SENT, DataRejected("22021", "not encodable"))
    deals.switch.at("settle", Phase.SENT, DataRejected("22021", "not encodable"))
    report = await deals.attempt()
    assert (report.outcome, report.attempts, report.error_code) == (Outcome.RETRIED, 1, "Postgres:22021")
    assert deals.provision.schedule.last_error == "Postgres:22021"
    assert (deals.chats, deals.participants, deals.feed, deals.messages) == ([], [], [], [])


async def test_row_that_the_database_always_refuses_ends_as_poison_and_is_told(deals: Deals) -> None:
    deals.put(a_failed_provision(attempts=RULES.max_attempts - 1))
    # The chat's id is taken by another deal's chat, so the database refuses every new one.
    first = deals.new_id()
    deals.put(*(a_chat(id=some_id(first.int + n), deal_id=some_id(500 + n)) for n in range(1, 30)))
    report = await deals.attempt()
    assert (report.outcome, report.error_code) == (Outcome.FAILED, "Postgres:23505")
    assert deals.statuses_told == ["Failed"]
    assert deals.provision.schedule.attempts == RULES.max_attempts


# Somebody else was faster


async def test_chat_that_came_since_the_reading_is_used(deals: Deals) -> None:
    deals.put(a_provision())
    deals.switch.at("settle", Phase.SENT, deals.putting(a_chat(), a_participant(SELLER, "Owner")))
    report = await deals.attempt()
    assert report.subject["chat_id"] == CHAT_ID
    assert deals.chats == [a_chat()]
    assert deals.feed == []
    assert {row.user_id: row.role for row in deals.participants} == {BUYER: "Buyer", SELLER: "Owner"}
    assert deals.statuses_told == ["Ready"]
    assert deals.messages[0].headers["correlation-id"] == str(RUN_ID)
    assert deals.operations() == SLOW


async def test_chat_that_changed_since_the_reading_is_decided_on_again(deals: Deals) -> None:
    deals.put(a_provision(), a_chat())
    deals.switch.at("settle", Phase.SENT, deals.putting(a_chat(status="Archived", version=1)))
    report = await deals.attempt()
    assert (report.outcome, report.error_code) == (Outcome.RETRIED, "ProvisionGuard:CHAT_NOT_ACTIVE")
    assert deals.participants == []


async def test_row_that_moved_on_and_is_still_due_is_decided_on_as_it_is_now(deals: Deals) -> None:
    deals.put(a_provision())
    deals.switch.at("settle", Phase.SENT, deals.putting(a_failed_provision(attempts=3, version=7)))
    report = await deals.attempt()
    assert (report.outcome, report.attempts) == (Outcome.PROVISIONED, 4)
    assert deals.provision.version == 8
    assert len(deals.messages) == 1


@pytest.mark.parametrize(
    "now",
    [
        a_failed_provision(attempts=1, next_attempt_at=NOW + timedelta(seconds=1)),
        a_failed_provision(attempts=RULES.max_attempts),
        a_provision(updated_at=NOW, version=1),
    ],
    ids=["waits", "poison", "progressed"],
)
async def test_row_that_is_not_due_any_more_is_skipped(deals: Deals, now: object) -> None:
    assert isinstance(now, type(a_provision()))
    deals.put(a_provision())
    deals.switch.at("settle", Phase.SENT, deals.putting(now))
    report = await deals.attempt()
    assert report == AttemptReport(outcome=Outcome.SKIPPED, subject={"deal_id": DEAL_ID})
    assert deals.provision == now
    assert (deals.chats, deals.messages) == ([], [])


async def test_ready_is_never_left(deals: Deals) -> None:
    deals.put(evolve(a_provision(), members=()))
    ready = evolve(a_ready_provision(), members=())
    deals.switch.at("settle", Phase.SENT, deals.putting(a_chat(), ready))
    assert (await deals.attempt()).outcome is Outcome.SKIPPED
    assert deals.provision == ready
    assert deals.messages == []


async def test_row_in_somebody_elses_hands_is_skipped_without_waiting(deals: Deals) -> None:
    deals.put(a_provision())
    async with deals.store.begin() as holder:
        assert await holder.lock(PROVISION_ID) is not None
        assert (await deals.attempt()).outcome is Outcome.SKIPPED
    assert deals.provision == a_provision()


async def test_concurrent_creator_of_the_chat_is_waited_for(deals: Deals) -> None:
    deals.put(a_provision())
    async with deals.database.begin() as creator:
        async with creator.statement("create"):
            await creator.insert(deals.database.chats, a_chat())
        attempt = asyncio.create_task(deals.attempt())
        for _ in range(50):
            await asyncio.sleep(0)
        assert not attempt.done()
        await creator.commit()
    report = await attempt
    assert report.subject["chat_id"] == CHAT_ID
    assert (deals.chats, deals.feed, deals.statuses_told) == ([a_chat()], [], ["Ready"])


async def test_two_processes_on_the_same_reading_provision_once(deals: Deals) -> None:
    deals.put(a_provision())
    (candidate,) = await deals.read()
    reports = await asyncio.gather(*(deals.job.attempt(candidate, deals.cycle) for _ in range(5)))
    assert sorted(report.outcome for report in reports) == [Outcome.PROVISIONED] + [Outcome.SKIPPED] * 4
    assert (len(deals.chats), len(deals.feed), deals.statuses_told) == (1, 1, ["Ready"])
    assert deals.provision.schedule.attempts == 1


# Infrastructure


@pytest.mark.parametrize("failure", [GONE, RowRolledBack("40P01", "deadlock detected")])
@pytest.mark.parametrize("operation", sorted({*SLOW} - {"candidates"}))
async def test_infrastructure_failure_counts_nothing(
    deals: Deals, operation: str, failure: Exception
) -> None:
    deals.put(a_provision())
    if operation != "settle":
        deals.switch.at("settle", Phase.SENT, deals.putting(a_provision(version=1)))
    deals.switch.at(operation, Phase.SENT, failure)
    with pytest.raises(type(failure)):
        await deals.attempt()
    assert deals.provision.schedule.attempts == 0
    assert (deals.chats, deals.participants, deals.feed, deals.messages) == ([], [], [], [])
    assert (deals.database.open_transactions, deals.database.locks.held) == (0, 0)


@pytest.mark.parametrize("operation", ["settle", "commit"])
async def test_attempt_whose_answer_is_lost_is_not_made_again(deals: Deals, operation: str) -> None:
    deals.put(a_provision())
    if operation == "commit":
        deals.switch.at("settle", Phase.SENT, deals.putting(a_provision(version=1)))
    deals.switch.at(operation, Phase.ANSWERED, GONE)
    with pytest.raises(DatabaseUnavailable):
        await deals.attempt()
    assert deals.provision.status is ProvisionStatus.READY
    assert (len(deals.chats), deals.statuses_told) == (1, ["Ready"])
    assert await deals.read() == []


async def test_connection_that_is_lost_before_a_savepoint_is_undone_does_not_hide(deals: Deals) -> None:
    deals.put(a_provision())
    deals.switch.at("settle", Phase.SENT, deals.putting(a_chat()))
    deals.switch.at("release savepoint", Phase.SENT, GONE)
    with pytest.raises(DatabaseUnavailable):
        await deals.attempt()
    assert deals.provision == a_provision()


# A whole cycle


async def test_cycle_provisions_what_is_due_and_leaves_the_rest(deals: Deals) -> None:
    due = [a_provision(id=some_id(1000 + n), deal_id=some_id(2000 + n)) for n in range(7)]
    refused = a_provision(id=some_id(1500), deal_id=some_id(2500), members=())
    young = a_provision(id=some_id(1600), deal_id=some_id(2600), updated_at=NOW - timedelta(minutes=4))
    deals.put(*due, refused, young)
    report = await deals.run(deals.job, batch_size=3, lanes=2)
    assert report.end is CycleEnd.COMPLETED
    assert deals.telemetry.batches == [3, 3, 2]
    assert report.counts == {Outcome.PROVISIONED: 7, Outcome.RETRIED: 1}
    assert len(deals.chats) == 7
    assert deals.statuses_told == ["Ready"] * 7
    row = deals.database.row(deals.database.provisions, young.id)
    assert row == provision_row(young)


async def test_row_that_rolls_back_is_not_tried_twice_in_a_cycle(deals: Deals) -> None:
    deals.put(*(a_provision(id=some_id(1000 + n), deal_id=some_id(2000 + n)) for n in range(3)))
    for _ in range(3):
        deals.switch.at("settle", Phase.SENT, RowRolledBack("40P01", "deadlock detected"))
    report = await deals.run(deals.job, batch_size=1)
    assert report.counts == {Outcome.ROLLED_BACK: 3}
    assert (await deals.run(deals.job, batch_size=1)).counts == {Outcome.PROVISIONED: 3}


@pytest.mark.parametrize("step", range(1, 40))
async def test_cancelled_cycle_leaves_rows_whole(deals: Deals, step: int) -> None:
    deals.put(*(a_provision(id=some_id(1000 + n), deal_id=some_id(2000 + n)) for n in range(4)))
    others = asyncio.all_tasks()
    task = asyncio.create_task(deals.run(deals.job, batch_size=2, lanes=2))
    for _ in range(step):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})
    ready = [row for row in deals.database.rows(deals.database.provisions) if row.status == "Ready"]
    assert len(ready) == len(deals.chats) == len(deals.feed) == len(deals.messages)
    assert len(deals.participants) == 2 * len(ready)
    assert (deals.database.open_transactions, deals.database.locks.held) == (0, 0)
    assert deals.server.held == []
    assert asyncio.all_tasks() == others


async def test_preview_says_what_an_attempt_would_come_to(deals: Deals) -> None:
    deals.put(a_provision(members=()))
    (candidate,) = await deals.read()
    preview = await deals.job.preview(candidate, deals.cycle)
    assert deals.provision == a_provision(members=())
    assert preview == await deals.attempt()


@pytest.mark.parametrize(
    "on_the_way",
    [None, a_provision(members=(), version=1), DataRejected("22021", "not encodable")],
    ids=["read ahead", "read again", "rejected by the database"],
)
async def test_clock_set_back_during_a_cycle_does_not_bring_a_row_back_into_it(
    deals: Deals, on_the_way: DealChatProvision | DataRejected | None
) -> None:
    deals.put(a_provision(members=()))
    (seen,) = await deals.read()
    deals.as_of += timedelta(hours=1)  # the cycle began before the clock was set back by an hour
    match on_the_way:
        case DealChatProvision():
            deals.switch.at("settle", Phase.SENT, deals.putting(on_the_way))
        case DataRejected():
            deals.switch.at("settle", Phase.SENT, on_the_way)
            deals.switch.at("settle", Phase.SENT, on_the_way)
        case None:
            pass
    await deals.job.attempt(seen, deals.cycle)
    assert deals.provision.schedule.attempts == 1
    assert deals.provision.schedule.next_attempt_at > deals.as_of
