from __future__ import annotations

import asyncio
import gc

import pytest
from messenger_jobs.application.finishing import ended_before, finishing


async def turns(count: int, done: list[str]) -> str:
    for _ in range(count):
        await asyncio.sleep(0)
    done.append("done")
    return "result"


async def test_result_comes_back() -> None:
    assert await finishing(turns(3, []), within=1) == "result"


async def test_what_the_work_raises_comes_back() -> None:
    async def fail() -> None:
        raise LookupError

    with pytest.raises(LookupError):
        await finishing(fail(), within=1)


async def test_cancelled_work_finishes_before_the_cancellation_goes_on() -> None:
    done: list[str] = []
    task = asyncio.create_task(finishing(turns(50, done), within=60))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done == ["done"]


@pytest.mark.parametrize("cancellations", [1, 2, 3])
async def test_work_that_does_not_finish_is_cancelled_and_awaited(cancellations: int) -> None:
    cleaned_up: list[str] = []

    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await turns(50, cleaned_up)

    others = asyncio.all_tasks()
    task = asyncio.create_task(finishing(hang(), within=0.01 if cancellations == 1 else 3600))
    await asyncio.sleep(0)
    for _ in range(cancellations):
        task.cancel()
        for _ in range(3):
            await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cleaned_up == ["done"]
    assert asyncio.all_tasks() == others


async def test_failure_of_work_after_a_cancellation_is_nobodys_but_looked_at() -> None:
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))

    async def fail() -> None:
        await turns(5, [])
        raise LookupError

    task = asyncio.create_task(finishing(fail(), within=60))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    del task
    gc.collect()
    await asyncio.sleep(0)
    assert reported == []


async def test_work_that_ends_with_the_cancellation_loses_nothing() -> None:
    done: list[str] = []
    ready = asyncio.Event()

    async def work() -> None:
        await ready.wait()
        done.append("done")

    task = asyncio.create_task(finishing(work(), within=60))
    await asyncio.sleep(0)
    ready.set()
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    assert done == ["done"]


async def test_work_that_ends_before_the_deadline_leaves_no_task() -> None:
    others = asyncio.all_tasks()
    assert await ended_before(turns(3, []), asyncio.Event().wait())
    assert asyncio.all_tasks() == others


async def test_work_is_cancelled_and_awaited_at_the_deadline() -> None:
    cleaned_up: list[str] = []

    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await turns(50, cleaned_up)

    assert not await ended_before(hang(), turns(3, []))
    assert cleaned_up == ["done"]


async def test_deadline_that_takes_its_turns_to_end_leaves_no_task() -> None:
    async def deadline() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await turns(50, [])

    others = asyncio.all_tasks()
    assert await ended_before(turns(3, []), deadline())
    assert asyncio.all_tasks() == others


async def test_failure_before_the_deadline_comes_back() -> None:
    async def fail() -> None:
        raise LookupError

    with pytest.raises(LookupError):
        await ended_before(fail(), asyncio.Event().wait())


async def test_cancellation_of_both_leaves_no_task() -> None:
    others = asyncio.all_tasks()
    task = asyncio.create_task(ended_before(asyncio.Event().wait(), asyncio.Event().wait()))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    assert asyncio.all_tasks() == others
