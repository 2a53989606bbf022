"""Work that is better finished than cut short."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

Result = TypeVar("Result")


async def finishing(work: Coroutine[Any, Any, Result], *, within: float) -> Result:
    """Await ``work``; when cancelled meanwhile, give it ``within`` more seconds to end, then cancel it too.

    Either way the cancellation goes on once ``work`` has ended; a second one cancels ``work`` at once. The seconds are
    those of the event loop, whatever clock the application has: an end must come.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if not task.done():
            await _end(task, within)
        raise


async def _end(task: asyncio.Task[Any], within: float) -> None:
    with suppress(asyncio.CancelledError):
        await asyncio.wait({task}, timeout=within)
    task.cancel()
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait({task})
    if not task.cancelled():
        task.exception()  # looked at, so that nobody is told it never was


async def ended_before(work: Coroutine[Any, Any, object], deadline: Coroutine[Any, Any, object]) -> bool:
    """Await ``work``, or cancel it as soon as ``deadline`` ends: whether it got that far. Leaves no task behind.

    Raises what ``work`` raises.
    """
    working, waiting = asyncio.ensure_future(work), asyncio.ensure_future(deadline)
    try:
        await asyncio.wait({working, waiting}, return_when=asyncio.FIRST_COMPLETED)
        too_late = not working.done()
    finally:
        working.cancel()
        waiting.cancel()
        await asyncio.gather(working, waiting, return_exceptions=True)
    if too_late:
        return False
    working.result()
    return True


def asked_to_end() -> bool:
    """Whether somebody cancelled the current task, so that a cancellation it meets is not one of its own making."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
