"""A polite request to stop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class StopSignal:
    """Asked for once, seen by everybody who holds it: no new row is started, the row in hand is finished."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    @property
    def requested(self) -> bool:
        """Whether somebody asked."""
        return self._event.is_set()

    def request(self) -> None:
        """Ask to stop; repeating it changes nothing."""
        self._event.set()

    async def wait(self) -> None:
        """Return once somebody asked."""
        await self._event.wait()

    async def cut_short(self, waiting: Coroutine[Any, Any, None]) -> None:
        """Await ``waiting`` until it ends or a stop is requested, whichever comes first."""
        waiter = asyncio.ensure_future(waiting)
        stopper = asyncio.ensure_future(self.wait())
        try:
            await asyncio.wait({waiter, stopper}, return_when=asyncio.FIRST_COMPLETED)
            if waiter.done():
                waiter.result()
        finally:
            waiter.cancel()
            stopper.cancel()
            # gather, not suppress: a cancellation of the caller that arrives here must get through.
            await asyncio.gather(waiter, stopper, return_exceptions=True)
