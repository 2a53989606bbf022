from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from messenger_jobs.adapters.memory.clock import ManualClock
from messenger_jobs.adapters.memory.ids import SequentialIds

SECOND = timedelta(seconds=1)


def test_time_stands_still_until_it_is_advanced() -> None:
    clock = ManualClock(datetime(2026, 3, 14, tzinfo=UTC))
    assert (clock.now(), clock.monotonic()) == (clock.now(), 0.0)
    clock.advance(1.5 * SECOND)
    assert (clock.now(), clock.monotonic()) == (datetime(2026, 3, 14, 0, 0, 1, 500_000, tzinfo=UTC), 1.5)


def test_time_does_not_go_back() -> None:
    with pytest.raises(ValueError, match="back"):
        ManualClock().advance(-SECOND)


def test_timers_go_off_at_their_own_time_and_ties_in_the_order_of_setting() -> None:
    clock = ManualClock()
    gone_off: list[tuple[str, float]] = []
    for name, seconds in (("late", 3), ("tie one", 2), ("tie two", 2), ("beyond", 9)):
        clock.call_later(seconds * SECOND, lambda name=name: gone_off.append((name, clock.monotonic())))  # type: ignore[misc]
    clock.advance(5 * SECOND)
    assert gone_off == [("tie one", 2.0), ("tie two", 2.0), ("late", 3.0)]
    assert clock.time_to_next == 4 * SECOND


def test_timer_set_by_a_timer_goes_off_within_the_same_advance() -> None:
    clock = ManualClock()
    gone_off: list[float] = []

    def again() -> None:
        gone_off.append(clock.monotonic())
        clock.call_later(SECOND, again)

    clock.call_later(SECOND, again)
    clock.advance(3 * SECOND)
    assert gone_off == [1.0, 2.0, 3.0]


def test_timer_that_was_taken_back_does_not_go_off() -> None:
    clock = ManualClock()
    clock.call_later(SECOND, lambda: pytest.fail("it was taken back"))()
    assert clock.time_to_next is None
    clock.advance(2 * SECOND)


async def test_sleeper_wakes_exactly_at_its_time() -> None:
    clock = ManualClock()
    sleeper = asyncio.create_task(clock.sleep(1.0))
    await asyncio.sleep(0)
    clock.advance(SECOND - timedelta(microseconds=1))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not sleeper.done()
    clock.advance(timedelta(microseconds=1))
    await sleeper


async def test_cancelled_sleeper_is_forgotten() -> None:
    clock = ManualClock()
    sleeper = asyncio.create_task(clock.sleep(1.0))
    await asyncio.sleep(0)
    sleeper.cancel()
    await asyncio.wait({sleeper})
    assert clock.time_to_next is None


def test_ids_are_the_same_in_every_run_ascend_and_differ_between_spaces() -> None:
    first = [SequentialIds(1)() for _ in range(1)] + [SequentialIds(1)()]
    assert first[0] == first[1]
    ids, others = SequentialIds(), SequentialIds(1)
    drawn = [ids() for _ in range(100)]
    assert drawn == sorted(set(drawn))
    assert not set(drawn) & {others() for _ in range(100)}
