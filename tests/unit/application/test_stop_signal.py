from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from messenger_jobs.adapters.memory.clock import ManualClock
from messenger_jobs.application.stop_signal import StopSignal


async def test_nobody_has_asked_at_first() -> None:
    assert not StopSignal().requested


async def test_request_is_seen_by_everybody_and_can_be_repeated() -> None:
    stop = StopSignal()
    waiting = [asyncio.create_task(stop.wait()) for _ in range(2)]
    await asyncio.sleep(0)
    stop.request()
    stop.request()
    await asyncio.gather(*waiting)
    assert stop.requested


async def test_work_that_ends_first_ends_the_wait() -> None:
    stop = StopSignal()
    others = asyncio.all_tasks()
    await stop.cut_short(asyncio.sleep(0))
    assert not stop.requested
    assert asyncio.all_tasks() == others


async def test_stop_cancels_the_work_and_waits_for_its_end() -> None:
    stop, clean = StopSignal(), asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(10):
                await asyncio.sleep(0)
            clean.set()

    waiting = asyncio.create_task(stop.cut_short(work()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    stop.request()
    await waiting
    assert clean.is_set()


async def test_stop_asked_for_before_does_not_wait() -> None:
    stop, clock = StopSignal(), ManualClock()
    stop.request()
    await stop.cut_short(clock.sleep(1e6))
    assert clock.time_to_next is None


async def test_error_of_the_work_comes_through() -> None:
    async def fail() -> None:
        raise LookupError

    with pytest.raises(LookupError):
        await StopSignal().cut_short(fail())


async def test_cancellation_comes_through_and_leaves_no_task() -> None:
    stop, clock = StopSignal(), ManualClock()
    others = asyncio.all_tasks()
    waiting = asyncio.create_task(stop.cut_short(clock.sleep(60)))
    for _ in range(3):
        await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert asyncio.all_tasks() == others
    clock.advance(timedelta(seconds=60))


async def test_cancellation_while_the_work_is_being_ended_comes_through() -> None:
    stop, cleaning = StopSignal(), asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaning.set()
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    waiting = asyncio.create_task(stop.cut_short(work()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    stop.request()
    await cleaning.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
