"""What one pass of the relay does, seen through ``run_once``."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from attrs import evolve
from messenger_jobs.adapters.memory.outbox_queue import MemoryOutboxQueue
from messenger_jobs.adapters.memory.switch import Phase
from messenger_jobs.application.cycle_report import CycleEnd
from messenger_jobs.application.ports.errors import (
    DatabaseUnavailable,
    Misconfigured,
    PortError,
    RowRolledBack,
)
from messenger_jobs.application.ports.event_publisher import (
    Event,
    NotPublished,
    Published,
    Receipt,
    Unpublishable,
)
from messenger_jobs.application.ports.outbox_queue import QueuedMessage
from messenger_jobs.application.relay_report import MessageFailure, PassReport, RelayReport
from messenger_jobs.application.trouble import Trouble, TroubleKind

from tests.support.builders import NOW, some_id
from tests.support.eventually import eventually
from tests.support.outbox_rows import TOPIC, a_dead_row, a_published_row, an_outbox_row
from tests.support.scripted_publisher import ScriptedPublisher
from tests.unit.application.relays import OUTAGE, REFUSED, TOO_LARGE, RelayBench

GONE = DatabaseUnavailable("CONNECTION_LOST", "the connection to the database failed")
REFUSES_US = Misconfigured("Kafka:AUTHENTICATION", "the broker refuses the credentials")
TTL = timedelta(seconds=90)


@pytest.fixture
def bench() -> RelayBench:
    return RelayBench()


def a_failure(number: int, code: str, attempts: int = 1) -> MessageFailure:
    return MessageFailure(event_id=some_id(number), topic=TOPIC, error_code=code, attempts=attempts)


# Publishing and marking


async def test_messages_are_published_in_order_and_marked_with_their_receipts(bench: RelayBench) -> None:
    bench.commit(3, 1, 2)
    bench.clock.advance(timedelta(minutes=1))
    report = await bench.run_once()
    assert bench.publisher.log == [1, 2, 3]
    assert [
        (row.published_partition, row.published_offset, row.published_at) for row in map(bench.row, (1, 2, 3))
    ] == [(number % 3, number - 1, NOW + timedelta(minutes=1)) for number in (1, 2, 3)]
    assert (report.end, report.published, report.failed, report.parked) == (CycleEnd.COMPLETED, 3, 0, 0)


async def test_events_are_the_messages_in_their_envelopes(bench: RelayBench) -> None:
    bench.put(an_outbox_row(1, payload={"dealId": "Ж"}))
    await bench.run_once()
    (event,) = bench.publisher.events
    assert (event.topic, event.key) == (TOPIC, b"deal 1")
    assert event.value is not None
    assert json.loads(event.value)["payload"] == {"dealId": "Ж"}


async def test_published_and_parked_messages_are_left_alone(bench: RelayBench) -> None:
    bench.put(a_published_row(1), a_dead_row(2), an_outbox_row(3))
    await bench.run_once()
    assert bench.publisher.log == [3]
    assert (bench.row(1), bench.row(2)) == (a_published_row(1), a_dead_row(2))


async def test_batches_follow_each_other_until_nothing_is_left(bench: RelayBench) -> None:
    bench.relay = bench.a_relay(options=type(bench.relay.options)(batch_size=2))
    bench.commit(*range(1, 6))
    report = await bench.run_once()
    assert bench.publisher.sent == [[1, 2], [3, 4], [5]]
    assert report.published == 5
    assert bench.unpublished == []
    readings = [step.operation for step in bench.switch.steps].count("unpublished")
    assert readings == 3 * 2, "each batch is read once, and not what lies behind the newest id"


async def test_run_goes_on_until_a_pass_publishes_nothing(bench: RelayBench) -> None:
    bench.commit(1)
    bench.publisher.after = [lambda: bench.commit(2)]
    report = await bench.run_once()
    assert bench.publisher.log == [1, 2]
    assert (report.published, len(bench.telemetry.passes)) == (2, 3)


async def test_message_committed_late_under_an_earlier_id_is_published_by_the_next_pass() -> None:
    bench = RelayBench(batch_size=1)
    bench.commit(2, 3)
    bench.publisher.after = [lambda: bench.commit(1)]
    await bench.run_once()
    assert bench.publisher.log == [2, 3, 1]


async def test_empty_outbox_costs_one_reading_and_asks_the_broker_nothing(bench: RelayBench) -> None:
    report = await bench.run_once()
    assert (report.end, report.published) == (CycleEnd.COMPLETED, 0)
    assert bench.publisher.sent == []
    assert [step.operation for step in bench.switch.steps] == ["newest id"] * 2


async def test_run_and_its_passes_are_reported_whole(bench: RelayBench) -> None:
    bench.commit(1, 3, key="a")
    bench.commit(5, 6, 7, key="b")
    bench.commit(2, 4, 8)
    for number in (1, 5):
        bench.publisher.answers[number] = [REFUSED]
    for number in (2, 8):
        bench.publisher.answers[number] = [TOO_LARGE]
    bench.clock.advance(timedelta(minutes=1))
    bench.publisher.after = [bench.passing(timedelta(seconds=7))]
    report = await bench.run_once()
    run_id, started_at, lasted = some_id(1_000_000), NOW + timedelta(minutes=1), timedelta(seconds=7)
    assert bench.telemetry.passes == [
        PassReport(
            run_id=run_id,
            started_at=started_at,
            duration=lasted,
            end=CycleEnd.COMPLETED,
            published=1,
            failed=2,
            parked=2,
            held_back=3,
        ),
        PassReport(
            run_id=run_id,
            started_at=started_at + lasted,
            duration=timedelta(0),
            end=CycleEnd.COMPLETED,
            held_back=5,
        ),
    ]
    assert report == RelayReport(
        run_id=run_id,
        started_at=started_at,
        duration=lasted,
        end=CycleEnd.COMPLETED,
        published=1,
        failed=2,
        parked=2,
        held_back=5,
    )
    assert set(bench.telemetry.runs_of_calls) == {run_id}


# Order of keys


async def test_no_two_messages_of_a_key_are_sent_together(bench: RelayBench) -> None:
    bench.commit(1, 3, 4, key="a")
    bench.commit(2, 5, key="b")
    await bench.run_once()
    assert bench.publisher.sent == [[1, 2], [3, 5], [4]]


async def test_round_is_sent_in_the_order_of_ids(bench: RelayBench) -> None:
    bench.commit(1, 4, key="a")
    bench.commit(2, 3, key="b")
    await bench.run_once()
    assert bench.publisher.sent == [[1, 2], [3, 4]]


async def test_same_key_on_another_topic_is_another_key(bench: RelayBench) -> None:
    bench.put(*(an_outbox_row(number, message_key="a", topic=f"topic {number}") for number in (1, 2)))
    await bench.run_once()
    assert bench.publisher.sent == [[1, 2]]


async def test_receipts_of_a_round_are_marked_while_the_next_one_is_with_the_broker(
    bench: RelayBench,
) -> None:
    bench.commit(1, 2, key="a")
    marked: list[list[int]] = []

    async def until_marked() -> None:
        await eventually(lambda: bench.published == [1])
        marked.append(bench.published)

    bench.publisher.before = [lambda: marked.append(bench.published), until_marked]
    await bench.run_once()
    assert marked == [[], [1]]
    assert bench.published == [1, 2]


async def test_next_batch_is_read_while_the_broker_has_this_one() -> None:
    bench = RelayBench(batch_size=1)
    bench.commit(1, 2)

    def read() -> bool:
        return sum(step.operation == "unpublished" for step in bench.switch.steps) == 2 * 2

    bench.publisher.before = [lambda: eventually(read)]
    await bench.run_once()
    assert bench.publisher.sent == [[1], [2]]


async def test_message_is_not_sent_before_one_of_its_key_that_was_committed_late_under_an_id_passed_by() -> (
    None
):
    bench = RelayBench(batch_size=1)
    bench.commit(2, 3)
    bench.publisher.before = [lambda: bench.commit(1, 4, key="a")]
    await bench.run_once()
    assert bench.publisher.log == [2, 3, 1, 4]


async def test_failed_message_holds_back_those_of_its_key_and_no_others(bench: RelayBench) -> None:
    bench.commit(1, 3, 5, key="a")
    bench.commit(2, 4, key="b")
    bench.publisher.answers[1] = [REFUSED]
    report = await bench.run_once()
    assert bench.publisher.log == [2, 4]
    assert bench.unpublished == [1, 3, 5]
    assert (report.published, report.failed, report.held_back) == (2, 1, 3)
    assert [made.held_back for made in bench.telemetry.passes] == [2, 3]


async def test_failed_message_is_held_back_over_all_batches_of_the_pass() -> None:
    bench = RelayBench(batch_size=2)
    bench.commit(1, 2, 4, 5, key="a")
    bench.commit(3, 6, key="b")
    bench.publisher.answers[1] = [REFUSED]
    # Longer than the key's first wait: what is behind it must not overtake it all the same.
    bench.publisher.after = [bench.passing(timedelta(seconds=5))] * 2
    await bench.run_once()
    assert bench.publisher.log[:2] == [3, 6]
    assert [number for number in bench.publisher.log if number in (1, 2, 4, 5)] == [1, 2, 4, 5]


async def test_key_whose_wait_ends_within_a_pass_stays_held_back_in_it() -> None:
    bench = RelayBench(batch_size=1)
    bench.commit(1, 3, key="a")
    bench.commit(2)
    bench.publisher.answers[1] = [REFUSED]
    bench.publisher.after = [lambda: None, bench.passing(timedelta(seconds=2))]
    await bench.run_once()
    assert bench.publisher.sent[:2] == [[1], [2]]
    assert bench.publisher.log == [2, 1, 3]


async def test_batch_that_is_held_back_whole_hides_nothing_behind_it() -> None:
    bench = RelayBench(batch_size=2)
    bench.commit(*range(1, 8), key="a")
    bench.commit(8)
    bench.publisher.answers[1] = [REFUSED]
    report = await bench.run_once()
    assert bench.publisher.log == [8]
    assert report.held_back == 7


# What fails


async def test_failure_is_counted_and_told(bench: RelayBench) -> None:
    bench.put(an_outbox_row(1, attempts=3, last_error="Kafka:OTHER"), an_outbox_row(2))
    bench.publisher.answers[1] = [REFUSED]
    await bench.run_once()
    assert (bench.row(1).attempts, bench.row(1).last_error) == (4, REFUSED.code)
    assert (bench.row(1).dead_at, bench.published) == (None, [2])
    assert bench.telemetry.failures == [a_failure(1, REFUSED.code, attempts=4)]
    assert bench.telemetry.parked == []


async def test_code_without_a_class_is_the_brokers(bench: RelayBench) -> None:
    bench.commit(1, 2)
    bench.publisher.answers[1] = [NotPublished(code="TIMED_OUT", outage=False)]
    bench.publisher.answers[2] = [Unpublishable(code="REFUSED")]
    await bench.run_once()
    assert (bench.row(1).last_error, bench.row(2).last_error) == ("Broker:TIMED_OUT", "Broker:REFUSED")
    assert bench.telemetry.failures == [a_failure(1, "Broker:TIMED_OUT")]
    assert bench.telemetry.parked == [a_failure(2, "Broker:REFUSED")]


async def test_message_that_can_never_be_sent_is_parked_and_its_followers_go_on(bench: RelayBench) -> None:
    bench.commit(1, 2, 3, key="a")
    bench.publisher.answers[1] = [TOO_LARGE]
    report = await bench.run_once()
    assert bench.publisher.log == [2, 3]
    assert (bench.row(1).dead_at, bench.row(1).last_error) == (NOW, TOO_LARGE.code)
    assert bench.row(1).attempts == 1
    assert bench.telemetry.parked == [a_failure(1, TOO_LARGE.code)]
    assert (report.published, report.parked, report.failed, report.held_back) == (2, 1, 0, 0)


async def test_parking_is_stored_before_a_follower_is_sent(bench: RelayBench) -> None:
    bench.commit(1, 2, key="a")
    bench.publisher.answers[1] = [TOO_LARGE]
    parked: list[list[int]] = []
    bench.publisher.before = [lambda: None, lambda: parked.append(bench.dead)]
    await bench.run_once()
    assert parked == [[1]]


@pytest.mark.parametrize("changes", [{"payload": {"size": float("inf")}}, {"headers": {"n": 1}}], ids=str)
async def test_message_that_cannot_be_serialised_is_parked_without_the_broker(
    bench: RelayBench, changes: dict[str, Any]
) -> None:
    row, follower = an_outbox_row(1, message_key="a"), an_outbox_row(2, message_key="a")
    readable = MemoryOutboxQueue(bench.database)

    class Queue(MemoryOutboxQueue):
        """As of a host whose columns hold more than ours do."""

        async def unpublished(self, *, after_id: int, up_to: int, limit: int) -> Sequence[QueuedMessage]:
            messages = await readable.unpublished(after_id=after_id, up_to=up_to, limit=limit)
            return [
                evolve(queued, message=evolve(queued.message, **changes)) if queued.id == 1 else queued
                for queued in messages
            ]

    bench.put(row, follower)
    bench.relay = bench.a_relay(queue=Queue(bench.database))
    await bench.run_once()
    assert bench.publisher.sent == [[2]]
    assert (bench.dead, bench.published) == ([1], [2])
    assert bench.telemetry.parked == [a_failure(1, "Envelope:UNSERIALISABLE")]


async def test_what_is_acknowledged_is_marked_although_others_of_its_round_fail(bench: RelayBench) -> None:
    bench.commit(1, 2, 3)
    bench.publisher.answers[1] = [REFUSED]
    bench.publisher.answers[2] = [TOO_LARGE]
    await bench.run_once()
    assert (bench.unpublished, bench.dead, bench.published) == ([1], [2], [3])


# Outages


async def test_outage_ends_the_run_and_counts_nothing_but_what_was_acknowledged(bench: RelayBench) -> None:
    bench.commit(1, 2, 3, 4)
    bench.commit(5, key="deal 4")
    bench.publisher.answers[1] = [OUTAGE]
    bench.publisher.answers[2] = [REFUSED]
    bench.publisher.answers[3] = [TOO_LARGE]
    report = await bench.run_once()
    assert bench.publisher.sent == [[1, 2, 3, 4]]
    assert bench.published == [4]
    assert {number: (row.attempts, row.last_error, row.dead_at) for number, row in bench.rows().items()} == (
        dict.fromkeys(range(1, 6), (0, None, None))
    )
    assert (report.end, report.error_code, report.published) == (CycleEnd.ABORTED, OUTAGE.code, 1)
    assert bench.telemetry.began == [Trouble(kind=TroubleKind.BROKER, code=OUTAGE.code)]


async def test_outage_is_called_by_the_first_code_of_its_round(bench: RelayBench) -> None:
    bench.commit(1, 2, 3)
    bench.publisher.answers[2] = [OUTAGE]
    bench.publisher.answers[3] = [NotPublished(code="Kafka:TIMEOUT", outage=True)]
    assert (await bench.run_once()).error_code == OUTAGE.code


async def test_misconfigured_broker_counts_against_no_message(bench: RelayBench) -> None:
    bench.commit(1, 2)
    before = bench.rows()
    bench.publisher.before = [REFUSES_US]
    report = await bench.run_once()
    assert bench.rows() == before
    assert (report.end, report.error_code) == (CycleEnd.ABORTED, REFUSES_US.code)
    assert bench.telemetry.troubles == [TroubleKind.CONFIGURATION]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (GONE, TroubleKind.DATABASE),
        (RowRolledBack("55P03", "the wait for a lock took too long"), TroubleKind.DATABASE),
        (Misconfigured("42P01", "a table is missing"), TroubleKind.CONFIGURATION),
        (ValueError("a defect"), TroubleKind.DEFECT),
    ],
)
@pytest.mark.parametrize("operation", ["unpublished", "mark published", "mark failed"])
async def test_database_that_fails_ends_the_run(
    bench: RelayBench, operation: str, error: Exception, kind: TroubleKind
) -> None:
    bench.commit(1, 2)
    bench.publisher.answers[1] = [REFUSED]
    bench.switch.at(operation, Phase.SENT, error)
    report = await bench.run_once()
    code = error.code if isinstance(error, PortError) else "Defect:ValueError"
    trouble = Trouble(kind=kind, code=code, error=error)
    assert (report.end, report.error_code) == (CycleEnd.ABORTED, code)
    assert bench.telemetry.began == [made.trouble for made in bench.telemetry.passes] == [trouble]
    assert set(bench.telemetry.runs_of_calls) == {report.run_id}
    assert bench.row(1).attempts == 0
    assert (bench.database.open_transactions, bench.server.held) == (0, [])


async def test_publisher_that_does_not_answer_for_every_event_is_a_defect_and_nothing_is_marked(
    bench: RelayBench,
) -> None:
    class Forgetful(ScriptedPublisher):
        async def publish(self, events: Sequence[Event]) -> Sequence[Receipt]:
            return (await super().publish(events))[1:]

    bench.commit(1, 2)
    before = bench.rows()
    bench.relay = bench.a_relay(publisher=Forgetful())
    report = await bench.run_once()
    assert (report.end, report.error_code) == (CycleEnd.ABORTED, "Defect:ValueError")
    assert bench.rows() == before


async def test_cancellation_of_the_publishers_own_making_is_a_defect_and_not_an_end(
    bench: RelayBench,
) -> None:
    bench.commit(1)
    bench.publisher.before = [asyncio.CancelledError()]
    report = await bench.run_once()
    assert (report.end, report.error_code) == (CycleEnd.ABORTED, "Defect:CancelledError")


async def test_receipts_whose_mark_failed_are_marked_by_the_next_run_and_not_sent_again(
    bench: RelayBench,
) -> None:
    bench.commit(1, 2, key="a")
    for _ in range(2):
        bench.switch.at("mark published", Phase.SENT, GONE)
    await bench.run_once()
    assert (bench.publisher.log, bench.published) == ([1, 2], [])
    bench.commit(3, key="a")
    report = await bench.run_once()
    assert bench.publisher.log == [1, 2, 3]
    assert bench.published == [1, 2, 3]
    assert bench.row(1).published_offset == 0
    assert report.published == 1


async def test_mark_whose_answer_was_lost_is_made_again_and_keeps_the_first_receipt(
    bench: RelayBench,
) -> None:
    bench.commit(1)
    bench.switch.at("mark published", Phase.ANSWERED, GONE)
    await bench.run_once()
    bench.clock.advance(timedelta(minutes=1))
    await bench.run_once()
    assert bench.publisher.log == [1]
    assert bench.published == [1]


# Stopping, and the lock


async def test_stop_lets_the_round_in_hand_be_marked_and_starts_no_other(bench: RelayBench) -> None:
    bench.commit(1, 2, key="a")
    bench.publisher.before = [bench.stop.request]
    report = await bench.run_once()
    assert (bench.publisher.log, bench.published) == ([1], [1])
    assert (report.end, report.published) == (CycleEnd.STOPPED, 1)


async def cancelled(bench: RelayBench) -> None:
    task = asyncio.create_task(bench.run_once())
    bench.publisher.after.insert(0, lambda: task.cancel() and None)
    await asyncio.wait({task})
    assert task.cancelled()


async def test_cancellation_between_receipt_and_mark_still_marks(bench: RelayBench) -> None:
    bench.commit(1, 2, key="a")
    await cancelled(bench)
    assert (bench.publisher.log, bench.published) == ([1], [1])
    assert (bench.database.open_transactions, bench.server.held) == (0, [])
    assert not bench.telemetry.lock_held


async def test_cancellation_during_the_mark_still_marks(bench: RelayBench) -> None:
    bench.commit(1)
    task = asyncio.create_task(bench.run_once())
    bench.switch.at("mark published", Phase.SENT, lambda: task.cancel() and None)
    await asyncio.wait({task})
    assert task.cancelled()
    assert bench.published == [1]


async def test_second_cancellation_waits_for_nothing(bench: RelayBench) -> None:
    bench.commit(1)
    task = asyncio.create_task(bench.run_once())
    never = asyncio.Event()

    async def hang() -> None:
        asyncio.get_running_loop().call_soon(task.cancel)
        asyncio.get_running_loop().call_later(0.01, task.cancel)
        await never.wait()

    bench.publisher.before = [hang]
    async with asyncio.timeout(2):
        await asyncio.wait({task})
    assert task.cancelled()
    assert (bench.publisher.log, bench.published, bench.server.held) == ([], [], [])


async def test_run_is_skipped_when_another_relay_holds_the_lock(bench: RelayBench) -> None:
    bench.commit(1)
    async with bench.relay.locks.try_acquire("outbox-relay"):
        report = await bench.run_once()
    assert report == RelayReport(
        run_id=some_id(1_000_000), started_at=NOW, duration=timedelta(0), end=CycleEnd.SKIPPED
    )
    assert bench.publisher.sent == []
    assert bench.telemetry.calls == ["standing_by"]
    assert bench.telemetry.runs_of_calls == [report.run_id]


async def test_lock_is_asked_for_before_a_batch_is_sent(bench: RelayBench) -> None:
    bench.commit(1)
    bench.switch.at("unpublished", Phase.ANSWERED, lambda: bench.server.end_session("outbox-relay"))
    report = await bench.run_once()
    assert report.end is CycleEnd.LOCK_LOST
    assert bench.publisher.sent == []
    assert "lock_lost" in bench.telemetry.calls


async def test_lease_that_expires_in_the_middle_of_a_batch_ends_the_run(bench: RelayBench) -> None:
    bench.commit(1, 2, key="a")
    bench.publisher.after = [bench.passing(TTL)]
    report = await bench.run_once()
    assert report.end is CycleEnd.LOCK_LOST
    assert (bench.publisher.log, bench.published) == ([1], [1])


async def test_lease_is_confirmed_in_the_middle_of_a_long_batch(bench: RelayBench) -> None:
    bench.commit(*range(1, 9), key="a")
    bench.publisher.after = [bench.passing(TTL / 3)] * 8
    report = await bench.run_once()
    assert report.end is CycleEnd.COMPLETED
    assert bench.publisher.log == list(range(1, 9))


async def test_lock_whose_server_cannot_be_asked_ends_the_run(bench: RelayBench) -> None:
    bench.commit(1)
    bench.lock_switch.at("acquire lock", Phase.SENT, GONE)
    report = await bench.run_once()
    assert (report.end, report.error_code) == (CycleEnd.ABORTED, GONE.code)
    assert bench.publisher.sent == []


async def test_two_relays_with_the_same_messages_keep_the_order_of_first_occurrences(
    bench: RelayBench,
) -> None:
    """The first one is paused until its lock is gone, and goes on with what it had read."""
    other = bench.replica()
    bench.commit(1, 2, 3, key="a")

    async def the_other_takes_over() -> None:
        bench.server.end_session("outbox-relay")
        await other.run_once()

    bench.publisher.after = [the_other_takes_over]
    await bench.run_once()
    assert list(dict.fromkeys(bench.publisher.log)) == [1, 2, 3]
    assert bench.published == [1, 2, 3]


async def test_first_receipt_stays_when_two_relays_have_one(bench: RelayBench) -> None:
    other = bench.replica()
    bench.commit(1)
    bench.publisher.answers[1] = [
        Published(partition=1, offset=10),
        Published(partition=1, offset=11),
    ]

    async def the_other_takes_over() -> None:
        bench.server.end_session("outbox-relay")
        await other.run_once()

    bench.publisher.after = [the_other_takes_over]
    await bench.run_once()
    assert bench.row(1).published_offset == 11
