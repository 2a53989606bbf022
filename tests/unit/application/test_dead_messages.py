"""What operators do with parked messages, and pruning by hand."""

from __future__ import annotations

from datetime import timedelta

import pytest
from messenger_jobs.adapters.memory.clock import ManualClock
from messenger_jobs.adapters.memory.outbox_queue import MemoryOutboxQueue
from messenger_jobs.adapters.memory.schema import MessengerDatabase, OutboxRow
from messenger_jobs.adapters.memory.switch import Phase
from messenger_jobs.application.list_dead_messages import ListDeadMessages
from messenger_jobs.application.prune_outbox import PruneOutbox
from messenger_jobs.application.requeue_dead_messages import RequeueDeadMessages

from tests.support.builders import NOW
from tests.support.outbox_rows import a_dead_row, a_published_row, an_outbox_row
from tests.unit.application.cycles import ScriptedSwitch

REFUSAL = "there is no such parked message"


@pytest.fixture
def database() -> MessengerDatabase:
    return MessengerDatabase(ManualClock(NOW))


@pytest.fixture
def requeue(database: MessengerDatabase) -> RequeueDeadMessages:
    return RequeueDeadMessages(queue=MemoryOutboxQueue(database))


def put(database: MessengerDatabase, *rows: OutboxRow) -> None:
    database.put(database.outbox, *rows)


def operations(switch: ScriptedSwitch) -> list[str]:
    return [step.operation for step in switch.steps if step.phase is Phase.SENT]


def dead(database: MessengerDatabase) -> list[int]:
    return sorted(row.id for row in database.rows(database.outbox) if row.dead_at is not None)


async def test_all_parked_messages_are_listed_over_all_pages(database: MessengerDatabase) -> None:
    put(database, an_outbox_row(1), *map(a_dead_row, range(2, 1003)))
    switch = ScriptedSwitch()
    listing = ListDeadMessages(queue=MemoryOutboxQueue(database, switch=switch))
    assert [message.id async for message in listing.all()] == list(range(2, 1003))
    assert operations(switch) == ["dead"] * 3


async def test_parked_messages_are_listed_by_their_error(database: MessengerDatabase) -> None:
    put(database, a_dead_row(1), a_dead_row(2, error="Kafka:FORBIDDEN"), a_dead_row(3))
    listing = ListDeadMessages(queue=MemoryOutboxQueue(database))
    assert [message.id async for message in listing.all(error="Kafka:FORBIDDEN")] == [2]


async def test_named_messages_are_sent_again_and_others_are_refused_with_a_reason(
    database: MessengerDatabase, requeue: RequeueDeadMessages
) -> None:
    put(database, a_dead_row(1), a_dead_row(2), an_outbox_row(3), a_published_row(4))
    report = await requeue.messages([2, 3, 4, 5, 2])
    assert report.requeued == (2,)
    assert report.refused == dict.fromkeys((3, 4, 5), REFUSAL)
    assert database.row(database.outbox, 2) == an_outbox_row(2)
    assert dead(database) == [1]


async def test_requeueing_twice_is_harmless(
    database: MessengerDatabase, requeue: RequeueDeadMessages
) -> None:
    put(database, a_dead_row(1))
    await requeue.messages([1])
    assert (await requeue.messages([1])).refused == {1: REFUSAL}


async def test_all_parked_messages_are_sent_again_however_many(
    database: MessengerDatabase, requeue: RequeueDeadMessages
) -> None:
    put(database, *map(a_dead_row, range(1, 1202)))
    report = await requeue.all()
    assert report.requeued == tuple(range(1, 1202))
    assert dead(database) == []


async def test_messages_are_sent_again_in_transactions_of_five_hundred(database: MessengerDatabase) -> None:
    put(database, *map(a_dead_row, range(1, 1002)))
    switch = ScriptedSwitch()
    await RequeueDeadMessages(queue=MemoryOutboxQueue(database, switch=switch)).messages(range(1, 1002))
    assert operations(switch) == ["requeue"] * 3


async def test_all_with_one_error_are_sent_again(
    database: MessengerDatabase, requeue: RequeueDeadMessages
) -> None:
    put(database, a_dead_row(1), a_dead_row(2, error="Kafka:FORBIDDEN"))
    assert (await requeue.all(error="Kafka:FORBIDDEN")).requeued == (2,)
    assert dead(database) == [1]


async def test_dry_run_says_the_same_and_changes_nothing(
    database: MessengerDatabase, requeue: RequeueDeadMessages
) -> None:
    put(database, a_dead_row(1), a_dead_row(2), an_outbox_row(3))
    before = database.rows(database.outbox)
    dry = [await requeue.messages([1, 3], dry_run=True), await requeue.all(dry_run=True)]
    assert database.rows(database.outbox) == before
    assert [report.requeued for report in dry] == [(1,), (1, 2)]
    assert dry[0] == await requeue.messages([1, 3])


async def test_pruning_by_hand_deletes_all_that_is_old_enough_batch_by_batch(
    database: MessengerDatabase,
) -> None:
    limits: list[int] = []
    left = [2500]

    class Queue(MemoryOutboxQueue):
        async def prune(self, *, published_before: object, limit: int) -> int:
            assert published_before == NOW - timedelta(days=7)
            limits.append(limit)
            pruned = min(limit, *left)
            left[0] -= pruned
            return pruned

    pruning = PruneOutbox(queue=Queue(database), clock=database.clock, retention=timedelta(days=7))
    assert await pruning.all() == 2500
    assert limits == [1000, 1000, 1000]


async def test_pruning_keeps_what_is_young_unpublished_or_parked(database: MessengerDatabase) -> None:
    week = timedelta(days=7)
    kept = [a_published_row(2, at=NOW - week), an_outbox_row(3), a_dead_row(4)]
    put(database, a_published_row(1, at=NOW - week - timedelta(microseconds=1)), *kept)
    pruning = PruneOutbox(queue=MemoryOutboxQueue(database), clock=database.clock, retention=week)
    assert await pruning.all() == 1
    assert database.rows(database.outbox) == kept
