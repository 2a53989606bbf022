"""What every `OutboxQueue` must show."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any, get_args

import pytest
from attrs import evolve
from messenger_jobs.adapters.memory.schema import OutboxRow
from messenger_jobs.application.event_envelope import envelope
from messenger_jobs.application.ports.errors import RowRolledBack
from messenger_jobs.application.ports.outbox_queue import (
    DeadMessage,
    FailedMessage,
    OutboxBacklog,
    OutboxQueue,
    PublishedMessage,
    QueuedMessage,
)

from tests.contract.outbox_queue_harness import OutboxQueueHarness
from tests.contract.provisioning_cancellation import at_every_step
from tests.support.builders import MICROSECOND, NOW, some_id
from tests.support.interruption import Moment, interrupt
from tests.support.outbox_rows import TOPIC, a_dead_row, a_published_row, an_outbox_row

LATER = NOW + timedelta(seconds=7, microseconds=1)
REFUSED = "Kafka:UNKNOWN_TOPIC"
TOO_LARGE = "Kafka:MESSAGE_TOO_LARGE"


def receipt(id: int, *, partition: int | None = 2, offset: int | None = None) -> PublishedMessage:
    return PublishedMessage(id=id, partition=partition, offset=offset or 100 + id)


def failure(id: int, *, dead: bool = False) -> FailedMessage:
    return FailedMessage(id=id, error_code=TOO_LARGE if dead else REFUSED, dead=dead)


def marked(row: OutboxRow, *, partition: int | None = 2, offset: int | None = None) -> OutboxRow:
    """The row once its `receipt` is stored at `LATER`."""
    return evolve(
        row,
        published_at=LATER,
        published_partition=partition,
        published_offset=offset or 100 + row.id,
        last_error=None,
    )


def parked(row: OutboxRow) -> OutboxRow:
    return evolve(row, attempts=row.attempts + 1, last_error=TOO_LARGE, dead_at=LATER)


async def ids(queue: OutboxQueue, *, after_id: int = 0, up_to: int = 10_000, limit: int = 100) -> list[int]:
    return [row.id for row in await queue.unpublished(after_id=after_id, up_to=up_to, limit=limit)]


class OutboxQueueContract:
    """An adapter's subclass overrides the fixture `harness`."""

    @pytest.fixture
    async def harness(self) -> OutboxQueueHarness:
        raise NotImplementedError("an adapter's subclass says what its harness is")

    # Reading

    async def test_unpublished_messages_are_read_by_id_as_they_were_given(
        self, harness: OutboxQueueHarness
    ) -> None:
        second = an_outbox_row(
            2,
            attempts=4,
            last_error=REFUSED,
            payload={
                "text": "Ж \U0001f600",
                "list": [1, 1.5, True, None, {"n": -(2**60)}],
                "": {},
            },
            headers={"traceparent": "00-1-2-01", "empty": ""},
            dedupe_key="once",
        )
        first = an_outbox_row(1)
        await harness.put(second, first)
        assert await harness.queue.unpublished(after_id=0, up_to=10, limit=10) == [
            QueuedMessage(id=1, message=first.message, attempts=0),
            QueuedMessage(id=2, message=second.message, attempts=4),
        ]

    async def test_payload_keeps_every_digit_of_its_numbers(self, harness: OutboxQueueHarness) -> None:
        row = an_outbox_row(1, payload={"size": 2**90, "share": 0.1})
        await harness.put(row)
        (queued,) = await harness.queue.unpublished(after_id=0, up_to=1, limit=1)
        value = envelope(queued.message).value
        assert value is not None
        assert json.loads(value)["payload"] == row.message.payload

    async def test_published_and_dead_messages_are_not_read(self, harness: OutboxQueueHarness) -> None:
        await harness.put(a_published_row(1), a_dead_row(2), an_outbox_row(3))
        assert await ids(harness.queue) == [3]

    async def test_reading_goes_on_behind_the_last_id_up_to_the_limit(
        self, harness: OutboxQueueHarness
    ) -> None:
        await harness.put(*map(an_outbox_row, range(1, 6)))
        assert await ids(harness.queue, limit=2) == [1, 2]
        assert await ids(harness.queue, after_id=2, limit=2) == [3, 4]
        assert await ids(harness.queue, after_id=4, limit=2) == [5]
        assert await ids(harness.queue, after_id=5) == []

    async def test_reading_ends_with_the_last_id_that_is_asked_for(self, harness: OutboxQueueHarness) -> None:
        await harness.put(*map(an_outbox_row, range(1, 6)))
        assert await ids(harness.queue, up_to=3) == [1, 2, 3]
        assert await ids(harness.queue, after_id=2, up_to=3) == [3]
        assert await ids(harness.queue, after_id=3, up_to=3) == []

    async def test_newest_id_is_that_of_the_last_message_that_waits(
        self, harness: OutboxQueueHarness
    ) -> None:
        assert await harness.queue.newest_id() is None
        await harness.put(a_published_row(1), a_dead_row(2))
        assert await harness.queue.newest_id() is None
        await harness.put(an_outbox_row(3), an_outbox_row(4), a_published_row(5), a_dead_row(6))
        async with harness.writing(an_outbox_row(7)):
            assert await harness.queue.newest_id() == 4
        assert await harness.queue.newest_id() == 7

    async def test_message_committed_late_under_an_earlier_id_is_read_by_the_next_pass(
        self, harness: OutboxQueueHarness
    ) -> None:
        async with harness.writing(an_outbox_row(1)):
            await harness.put(an_outbox_row(2))
            assert await ids(harness.queue) == [2]
        assert await ids(harness.queue) == [1, 2]

    async def test_message_that_is_being_marked_is_read_without_waiting(
        self, harness: OutboxQueueHarness
    ) -> None:
        await harness.put(an_outbox_row(1))
        async with harness.writing(a_published_row(1)):
            assert await ids(harness.queue) == [1]
        assert await ids(harness.queue) == []

    # Marking what is published

    async def test_receipts_are_stored_with_the_time(self, harness: OutboxQueueHarness) -> None:
        rows = [an_outbox_row(id) for id in (1, 2, 3)]
        await harness.put(*rows)
        receipts = [receipt(2, partition=7, offset=2**40), receipt(1, partition=None), receipt(3)]
        receipts[1] = PublishedMessage(id=1, partition=None, offset=None)
        assert await harness.queue.mark_published(receipts, at=LATER) == 3
        assert await harness.stored() == [
            evolve(rows[0], published_at=LATER),
            marked(rows[1], partition=7, offset=2**40),
            marked(rows[2]),
        ]

    async def test_publishing_clears_the_error_and_keeps_the_attempts(
        self, harness: OutboxQueueHarness
    ) -> None:
        row = an_outbox_row(1, attempts=3, last_error=REFUSED)
        await harness.put(row)
        await harness.queue.mark_published([receipt(1)], at=LATER)
        assert await harness.stored() == [marked(row)]

    async def test_first_receipt_stays(self, harness: OutboxQueueHarness) -> None:
        first, row = a_published_row(1, offset=5), an_outbox_row(2)
        await harness.put(first, row)
        assert await harness.queue.mark_published([receipt(1), receipt(2)], at=LATER) == 1
        assert await harness.queue.mark_published([receipt(2, offset=9)], at=LATER + MICROSECOND) == 0
        assert await harness.stored() == [first, marked(row)]

    async def test_dead_and_missing_messages_are_not_published(self, harness: OutboxQueueHarness) -> None:
        await harness.put(a_dead_row(1))
        assert await harness.queue.mark_published([receipt(1), receipt(2)], at=LATER) == 0
        assert await harness.stored() == [a_dead_row(1)]

    async def test_message_pruned_before_its_second_mark_stays_away(
        self, harness: OutboxQueueHarness
    ) -> None:
        await harness.put(an_outbox_row(1))
        await harness.other.mark_published([receipt(1)], at=NOW)
        assert await harness.other.prune(published_before=LATER, limit=10) == 1
        assert await harness.queue.mark_published([receipt(1)], at=LATER) == 0
        assert await harness.queue.mark_failed([failure(1)], at=LATER) == 0
        assert await harness.stored() == []

    async def test_marking_nothing_changes_nothing(self, harness: OutboxQueueHarness) -> None:
        await harness.put(an_outbox_row(1))
        assert await harness.queue.mark_published([], at=LATER) == 0
        assert await harness.queue.mark_failed([], at=LATER) == 0
        assert await harness.queue.requeue([]) == []
        assert await harness.stored() == [an_outbox_row(1)]

    async def test_a_thousand_messages_are_marked_at_once(self, harness: OutboxQueueHarness) -> None:
        numbers = range(1, 1001)
        await harness.put(*map(an_outbox_row, numbers))
        half = list(numbers)[:500]
        assert await harness.queue.mark_published([receipt(id) for id in half], at=LATER) == 500
        assert await harness.queue.mark_failed([failure(id) for id in numbers], at=LATER) == 500
        assert await ids(harness.queue, limit=2000) == list(range(501, 1001))

    # Marking what failed

    async def test_failure_counts_an_attempt_and_keeps_the_message(self, harness: OutboxQueueHarness) -> None:
        row = an_outbox_row(1, attempts=1, last_error="Kafka:OTHER")
        await harness.put(row, an_outbox_row(2))
        assert await harness.queue.mark_failed([failure(1)], at=LATER) == 1
        assert await harness.stored() == [evolve(row, attempts=2, last_error=REFUSED), an_outbox_row(2)]
        assert await ids(harness.queue) == [1, 2]

    async def test_message_that_can_never_be_sent_is_parked(self, harness: OutboxQueueHarness) -> None:
        rows = [an_outbox_row(1), an_outbox_row(2, attempts=1)]
        await harness.put(*rows)
        assert await harness.queue.mark_failed([failure(2, dead=True), failure(1)], at=LATER) == 2
        assert await harness.stored() == [evolve(rows[0], attempts=1, last_error=REFUSED), parked(rows[1])]
        assert await ids(harness.queue) == [1]

    async def test_published_and_dead_messages_do_not_fail_any_more(
        self, harness: OutboxQueueHarness
    ) -> None:
        rows = [a_published_row(1), a_dead_row(2)]
        await harness.put(*rows)
        failures = [failure(1, dead=True), failure(2), failure(3)]
        assert await harness.queue.mark_failed(failures, at=LATER) == 0
        assert await harness.stored() == rows

    # Pruning

    async def test_messages_published_before_the_time_are_deleted(self, harness: OutboxQueueHarness) -> None:
        kept = [a_published_row(2), an_outbox_row(3), a_dead_row(4)]
        await harness.put(a_published_row(1, at=NOW - MICROSECOND), *kept)
        assert await harness.queue.prune(published_before=NOW, limit=10) == 1
        assert await harness.stored() == kept
        assert await harness.queue.prune(published_before=NOW, limit=10) == 0

    async def test_oldest_messages_are_pruned_first_up_to_the_limit(
        self, harness: OutboxQueueHarness
    ) -> None:
        ages = {1: 1, 2: 3, 3: 2, 4: 4}
        await harness.put(*(a_published_row(id, at=NOW - timedelta(days=days)) for id, days in ages.items()))
        assert await harness.queue.prune(published_before=NOW, limit=2) == 2
        assert [row.id for row in await harness.stored()] == [1, 3]
        assert await harness.queue.prune(published_before=NOW, limit=2) == 2
        assert await harness.stored() == []

    async def test_pruning_skips_what_somebody_else_holds(self, harness: OutboxQueueHarness) -> None:
        rows = [a_published_row(id, at=NOW - timedelta(days=1)) for id in (1, 2)]
        await harness.put(*rows)
        async with harness.writing(rows[0]):
            assert await harness.queue.prune(published_before=NOW, limit=10) == 1
        assert [row.id for row in await harness.stored()] == [1]

    # Operators

    async def test_dead_messages_are_listed_by_id_without_their_payload(
        self, harness: OutboxQueueHarness
    ) -> None:
        await harness.put(a_dead_row(3), an_outbox_row(2), a_dead_row(1), a_published_row(4))
        expected = [
            DeadMessage(
                id=id,
                event_id=str(some_id(id)),
                topic=TOPIC,
                message_key=f"deal {id}",
                attempts=2,
                error_code=TOO_LARGE,
                dead_at=NOW,
            )
            for id in (1, 3)
        ]
        assert await harness.queue.dead(after_id=0, limit=10) == expected
        assert await harness.queue.dead(after_id=0, limit=1) == expected[:1]
        assert await harness.queue.dead(after_id=1, limit=10) == expected[1:]

    async def test_requeued_message_waits_again_with_no_attempts_made(
        self, harness: OutboxQueueHarness
    ) -> None:
        others = [a_published_row(2), an_outbox_row(3, attempts=1, last_error=REFUSED), a_dead_row(4)]
        await harness.put(a_dead_row(1), *others)
        assert sorted(await harness.queue.requeue([1, 2, 3, 5])) == [1]
        assert await harness.stored() == [an_outbox_row(1), *others]
        assert await harness.queue.requeue([1]) == []

    async def test_backlog_counts_what_waits_and_what_is_dead(self, harness: OutboxQueueHarness) -> None:
        assert await harness.queue.backlog() == OutboxBacklog(unpublished=0, dead=0, oldest_created_at=None)
        await harness.put(
            an_outbox_row(1, created_at=NOW),
            an_outbox_row(2, created_at=NOW - timedelta(minutes=3)),
            evolve(a_published_row(3), created_at=NOW - timedelta(days=1)),
            evolve(a_dead_row(4), created_at=NOW - timedelta(days=1)),
        )
        assert await harness.queue.backlog() == OutboxBacklog(
            unpublished=2, dead=1, oldest_created_at=NOW - timedelta(minutes=3)
        )

    # Several at once

    async def test_two_relays_that_mark_the_same_messages_mark_each_once(
        self, harness: OutboxQueueHarness
    ) -> None:
        numbers = list(range(1, 101))
        await harness.put(*map(an_outbox_row, numbers))
        ours = [receipt(id, partition=1) for id in numbers]
        theirs = [receipt(id, partition=2) for id in reversed(numbers)]
        counts = await asyncio.gather(
            harness.queue.mark_published(ours, at=NOW), harness.other.mark_published(theirs, at=LATER)
        )
        assert sorted(counts) == [0, 100]
        winner = 1 if counts[0] else 2
        assert {row.published_partition for row in await harness.stored()} == {winner}
        await harness.assert_nothing_left()

    async def test_mark_waits_for_another_one_and_loses_to_its_commit(
        self, harness: OutboxQueueHarness
    ) -> None:
        await harness.put(an_outbox_row(1), an_outbox_row(2))
        async with harness.writing(a_published_row(1)):
            marking = asyncio.create_task(harness.queue.mark_published([receipt(1), receipt(2)], at=LATER))
            await harness.until_blocked()
        assert await marking == 1
        assert await harness.stored() == [a_published_row(1), marked(an_outbox_row(2))]

    async def test_mark_waits_for_another_one_and_wins_by_its_rollback(
        self, harness: OutboxQueueHarness
    ) -> None:
        await harness.put(an_outbox_row(1))
        async with harness.writing_in_vain(a_published_row(1)):
            marking = asyncio.create_task(harness.queue.mark_failed([failure(1)], at=LATER))
            await harness.until_blocked()
        assert await marking == 1
        assert (await harness.row(1)).attempts == 1

    async def test_attempts_of_two_relays_are_both_counted(self, harness: OutboxQueueHarness) -> None:
        await harness.put(an_outbox_row(1))
        async with harness.writing(an_outbox_row(1, attempts=1, last_error="Kafka:OTHER")):
            marking = asyncio.create_task(harness.queue.mark_failed([failure(1)], at=LATER))
            await harness.until_blocked()
        assert await marking == 1
        assert await harness.stored() == [an_outbox_row(1, attempts=2, last_error=REFUSED)]

    async def test_receipt_of_a_message_that_is_being_requeued_comes_too_early(
        self, harness: OutboxQueueHarness
    ) -> None:
        await harness.put(a_dead_row(1))
        async with harness.writing(an_outbox_row(1)):
            assert await harness.queue.mark_published([receipt(1)], at=LATER) == 0
        assert await harness.stored() == [an_outbox_row(1)]
        assert await harness.queue.mark_published([receipt(1)], at=LATER) == 1

    async def test_requeueing_waits_for_another_one_and_does_nothing_then(
        self, harness: OutboxQueueHarness
    ) -> None:
        await harness.put(a_dead_row(1))
        async with harness.writing(an_outbox_row(1)):
            requeueing = asyncio.create_task(harness.queue.requeue([1]))
            await harness.until_blocked()
        assert await requeueing == []

    async def test_message_parked_by_one_relay_is_not_published_by_the_mark_of_another(
        self, harness: OutboxQueueHarness
    ) -> None:
        await harness.put(an_outbox_row(1))
        async with harness.writing(a_dead_row(1)):
            marking = asyncio.create_task(harness.queue.mark_published([receipt(1)], at=LATER))
            await harness.until_blocked()
        assert await marking == 0
        assert await harness.stored() == [a_dead_row(1)]

    @pytest.mark.parametrize("method", ["mark_published", "mark_failed", "requeue"])
    async def test_too_long_a_wait_rolls_back_and_leaves_nothing(
        self, harness: OutboxQueueHarness, method: str
    ) -> None:
        dead = method == "requeue"
        row = a_dead_row(1) if dead else an_outbox_row(1)
        await harness.put(row)
        marks: dict[str, Callable[[], Coroutine[Any, Any, object]]] = {
            "mark_published": lambda: harness.queue.mark_published([receipt(1)], at=LATER),
            "mark_failed": lambda: harness.queue.mark_failed([failure(1)], at=LATER),
            "requeue": lambda: harness.queue.requeue([1]),
        }
        async with harness.writing(row):
            waiting = asyncio.create_task(marks[method]())
            await harness.until_blocked()
            await harness.pass_lock_timeout()
            with pytest.raises(RowRolledBack):
                await waiting
        assert await harness.stored() == [row]
        await harness.assert_nothing_left()

    @pytest.mark.parametrize("moment", get_args(Moment))
    @pytest.mark.parametrize(
        ("call", "done"),
        [
            (lambda queue: queue.newest_id(), None),
            (lambda queue: queue.unpublished(after_id=0, up_to=10, limit=10), None),
            (lambda queue: queue.dead(after_id=0, limit=10), None),
            (lambda queue: queue.backlog(), None),
            (
                lambda queue: queue.mark_published([receipt(1)], at=LATER),
                [marked(an_outbox_row(1)), a_published_row(2), a_dead_row(3)],
            ),
            (
                lambda queue: queue.mark_failed([failure(1, dead=True)], at=LATER),
                [parked(an_outbox_row(1)), a_published_row(2), a_dead_row(3)],
            ),
            (
                lambda queue: queue.prune(published_before=LATER, limit=10),
                [an_outbox_row(1), a_dead_row(3)],
            ),
            (
                lambda queue: queue.requeue([3]),
                [an_outbox_row(1), a_published_row(2), an_outbox_row(3)],
            ),
        ],
        ids=[
            "newest id",
            "unpublished",
            "dead",
            "backlog",
            "mark published",
            "mark failed",
            "prune",
            "requeue",
        ],
    )
    async def test_cancelled_anywhere_it_is_done_whole_or_not_at_all_and_leaves_nothing(
        self,
        harness: OutboxQueueHarness,
        call: Callable[[OutboxQueue], Coroutine[Any, Any, object]],
        done: list[OutboxRow] | None,
        moment: Moment,
    ) -> None:
        before = [an_outbox_row(1), a_published_row(2), a_dead_row(3)]

        async def cancelled_at(step: int) -> bool:
            await harness.put(*before)
            reached = await interrupt(call(harness.queue), at=step, moment=moment)
            await harness.assert_nothing_left()
            assert await harness.stored() in (before, done or before), f"cancelled at step {step}"
            return reached

        assert await at_every_step(cancelled_at) >= 1  # a statement on a connection that is there waits once
