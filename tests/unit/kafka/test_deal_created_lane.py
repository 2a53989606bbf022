from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from messenger_jobs.adapters.memory.switch import Phase
from messenger_jobs.application.ports.errors import (
    DatabaseUnavailable,
    Misconfigured,
    PortError,
    RowRolledBack,
)
from messenger_jobs.application.ports.event_publisher import NotPublished

from tests.unit.kafka.consumers import ConsumerBench, FakePartition, FakeRecord, a_record

OUTAGE = DatabaseUnavailable("CONNECTION_LOST", "the connection to the database failed")
GARBAGE = FakeRecord(value=b"garbage", offset=0)


@pytest.fixture
def bench() -> ConsumerBench:
    return ConsumerBench()


async def test_messages_are_handled_in_order_and_committed_by_chunks(bench: ConsumerBench) -> None:
    lane = bench.lane([a_record(4), a_record(5)], [], [a_record(9)])
    task = asyncio.create_task(lane.run())
    await bench.until(lambda: bench.partition.commits == [6, 10])
    assert bench.handled == [4, 5, 9]
    lane.close()
    await task
    assert bench.partition.commits == [6, 10]


async def test_nothing_is_committed_before_a_message_was_handled(bench: ConsumerBench) -> None:
    lane = bench.lane([])
    task = asyncio.create_task(lane.run())
    await bench.until(lambda: not bench.partition.chunks)
    lane.close()
    await task
    assert bench.partition.commits == []


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        pytest.param(OUTAGE, "database", id="outage"),
        pytest.param(RowRolledBack("40P01", "a deadlock"), "database", id="roll back"),
        pytest.param(Misconfigured("42P01", "a table is missing"), "configuration", id="configuration"),
    ],
)
async def test_message_that_fails_through_no_fault_of_its_own_is_tried_until_it_succeeds(
    bench: ConsumerBench, error: PortError, kind: str
) -> None:
    for _ in range(5):
        bench.deals.switch.at("settle", Phase.SENT, error)
    lane = bench.lane([a_record(0), a_record(1)])
    task = asyncio.create_task(lane.run())
    waits: list[timedelta | None] = []
    for _ in range(5):
        await bench.until_it_waits()
        waits.append(bench.deals.clock.time_to_next)
        assert (bench.handled, bench.partition.commits) == ([], [])
        bench.wake()
    await bench.until(lambda: bench.partition.commits == [2])
    assert waits == [timedelta(minutes=minutes) for minutes in (1, 2, 4, 8, 15)]
    assert bench.handled == [0, 1]
    assert bench.telemetry.trouble_changes == [("began", kind), ("ended", kind)]
    assert bench.dead_letters.events == []
    lane.close()
    await task


async def test_what_was_handled_is_committed_before_the_wait(bench: ConsumerBench) -> None:
    lane = bench.lane([a_record(0), a_record(1)])
    bench.deals.switch.at("commit", Phase.ANSWERED, lambda: fail_next(bench))
    task = asyncio.create_task(lane.run())
    await bench.until_it_waits()
    assert bench.partition.commits == [1]
    lane.close()
    await task
    assert bench.partition.commits == [1]


def fail_next(bench: ConsumerBench) -> None:
    bench.deals.switch.at("begin", Phase.SENT, OUTAGE)


async def test_lane_that_is_closed_while_it_waits_gives_the_message_up_at_once(bench: ConsumerBench) -> None:
    bench.deals.switch.at("begin", Phase.SENT, OUTAGE)
    lane = bench.lane([a_record(0), a_record(1)])
    task = asyncio.create_task(lane.run())
    await bench.until_it_waits()
    lane.close()
    await task
    assert (bench.handled, bench.partition.commits) == ([], [])
    assert bench.telemetry.trouble_changes == [("began", "database")]


async def test_lane_that_is_closed_finishes_the_message_in_hand_and_starts_no_other(
    bench: ConsumerBench,
) -> None:
    lane = bench.lane([a_record(0), a_record(1)])
    bench.deals.switch.at("settle", Phase.SENT, lane.close)
    await lane.run()
    assert (bench.handled, bench.partition.commits) == ([0], [1])


async def test_cancelled_lane_rolls_the_message_in_hand_back_and_commits_nothing(
    bench: ConsumerBench,
) -> None:
    lane = bench.lane([a_record(0)])
    task = asyncio.create_task(lane.run())
    bench.deals.switch.at("settle", Phase.ANSWERED, task.cancel)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (bench.handled, bench.partition.commits) == ([], [])
    assert (bench.deals.chats, bench.deals.database.open_transactions) == ([], 0)


@pytest.mark.parametrize("defect", [ZeroDivisionError(), asyncio.CancelledError()], ids=["error", "cancel"])
async def test_message_that_meets_a_defect_is_set_aside_after_three_tries(
    bench: ConsumerBench, defect: BaseException
) -> None:
    for _ in range(3):
        bench.deals.switch.at("intend", Phase.SENT, defect)
    lane = bench.lane([a_record(0), a_record(1)])
    task = asyncio.create_task(lane.run())
    for _ in range(3):
        await bench.until_it_waits()
        assert bench.dead_letters.events == []
        bench.wake()
    await bench.until(lambda: bench.partition.commits == [2])
    assert bench.handled == [1]
    ((place, letter),) = bench.telemetry.dead_letters
    assert (place.offset, letter.reason) == (0, f"Defect:{type(defect).__name__}")
    assert [place.offset for place, _ in bench.telemetry.defects if place] == [0, 0, 0]
    lane.close()
    await task


async def test_defect_that_passes_sets_nothing_aside(bench: ConsumerBench) -> None:
    for _ in range(2):
        bench.deals.switch.at("intend", Phase.SENT, ZeroDivisionError())
    lane = bench.lane([a_record(0)])
    task = asyncio.create_task(lane.run())
    for _ in range(2):
        await bench.until_it_waits()
        bench.wake()
    await bench.until(lambda: bench.partition.commits == [1])
    assert (bench.handled, bench.dead_letters.events) == ([0], [])
    lane.close()
    await task


async def test_message_is_not_lost_while_the_dead_letters_are_out_of_reach(bench: ConsumerBench) -> None:
    bench.dead_letters.script = [NotPublished(code="TIMED_OUT", outage=True)] * 4
    lane = bench.lane([GARBAGE, a_record(1)])
    task = asyncio.create_task(lane.run())
    for _ in range(4):
        await bench.until_it_waits()
        assert bench.partition.commits == []
        bench.wake()
    await bench.until(lambda: bench.partition.commits == [2])
    assert [event.value for event in bench.dead_letters.events] == [b"garbage"]
    assert bench.telemetry.trouble_changes == [("began", "broker"), ("ended", "broker")]
    lane.close()
    await task


async def test_group_that_does_not_answer_ends_the_lane(bench: ConsumerBench) -> None:
    bench.partition.failure = TimeoutError()
    with pytest.raises(TimeoutError):
        await bench.lane([a_record(0)]).run()


async def test_outage_that_several_lanes_meet_is_told_once_and_ends_with_the_last(
    bench: ConsumerBench,
) -> None:
    for _ in range(2):
        bench.deals.switch.at("begin", Phase.SENT, OUTAGE)
    lanes = [bench.lane([a_record(number)], partition=FakePartition()) for number in range(2)]
    tasks = [asyncio.create_task(lane.run()) for lane in lanes]
    await bench.until(lambda: len(bench.deals.switch.script) == 0)
    await bench.until_it_waits()
    assert bench.telemetry.trouble_changes == [("began", "database")]
    bench.wake()
    await bench.until(lambda: len(bench.handled) == 2)
    assert bench.telemetry.trouble_changes == [("began", "database"), ("ended", "database")]
    for lane in lanes:
        lane.close()
    await asyncio.gather(*tasks)


async def test_lanes_share_the_slots(bench: ConsumerBench) -> None:
    """With one slot, no two messages are in hand at once."""
    bench.slots = asyncio.Semaphore(1)
    lanes = [
        bench.lane([a_record(10 * number + place) for place in range(5)], partition=FakePartition())
        for number in range(3)
    ]
    tasks = [asyncio.create_task(lane.run()) for lane in lanes]
    most = 0

    def all_done() -> bool:
        nonlocal most
        most = max(most, bench.deals.database.open_transactions)
        return len(bench.handled) == 15

    await bench.until(all_done)
    assert most == 1
    for lane in lanes:
        lane.close()
    await asyncio.gather(*tasks)


async def test_lane_that_waits_leaves_its_slot_to_the_others(bench: ConsumerBench) -> None:
    bench.slots = asyncio.Semaphore(1)
    bench.deals.switch.at("begin", Phase.SENT, OUTAGE)
    first, second = (bench.lane([a_record(number)], partition=FakePartition()) for number in range(2))
    tasks = [asyncio.create_task(first.run())]
    await bench.until_it_waits()
    tasks.append(asyncio.create_task(second.run()))
    await bench.until(lambda: bench.handled == [1])
    first.close()
    second.close()
    await asyncio.gather(*tasks)
