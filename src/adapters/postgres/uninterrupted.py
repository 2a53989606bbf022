"""Cleaning up while being cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


async def uninterrupted(work: Coroutine[Any, Any, object], *, timeout: float) -> None:
    """Let ``work`` finish whatever cancels us meanwhile; the cancellation goes on afterwards.

    Raises what ``work`` raises, and `TimeoutError` after ``timeout`` seconds.
    """
    task = asyncio.create_task(_bounded(work, timeout))
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as cancellation:
            cancelled = cancellation
    if cancelled is not None:
        task.exception()  # looked at, so that nobody is told it never was
        raise cancelled
    task.result()


async def _bounded(work: Coroutine[Any, Any, object], timeout: float) -> None:
    async with asyncio.timeout(timeout):
        await work
