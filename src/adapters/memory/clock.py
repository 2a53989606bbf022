"""Time that moves only when told to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from itertools import count
from typing import Final

from attrs import define, field

EPOCH: Final = datetime(2026, 1, 1, tzinfo=UTC)


@define(order=True)
class _Timer:
    deadline: timedelta
    sequence: int
    callback: Callable[[], None] = field(order=False)
    cancelled: bool = field(default=False, order=False)


class ManualClock:
    """A `Clock` for tests: wall and monotonic time stand still until `advance`."""

    def __init__(self, start: datetime = EPOCH) -> None:
        self._start = start
        self._elapsed = timedelta(0)
        self._timers: list[_Timer] = []
        self._sequence = count()

    def now(self) -> datetime:
        """The current time, aware, in UTC."""
        return self._start + self._elapsed

    def monotonic(self) -> float:
        """Seconds since the clock was made."""
        return self._elapsed.total_seconds()

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock was advanced by ``seconds``, counted in whole microseconds."""
        delay = timedelta(seconds=seconds)
        if delay <= timedelta(0):
            await asyncio.sleep(0)
            return
        woken = asyncio.Event()
        cancel = self.call_later(delay, woken.set)
        try:
            await woken.wait()
        finally:
            cancel()

    def call_later(self, delay: timedelta, callback: Callable[[], None]) -> Callable[[], None]:
        """Call ``callback`` once the clock was advanced by ``delay``; the result takes that back."""
        timer = _Timer(self._elapsed + delay, next(self._sequence), callback)
        heappush(self._timers, timer)

        def cancel() -> None:
            timer.cancelled = True

        return cancel

    @property
    def time_to_next(self) -> timedelta | None:
        """How far to advance for the next sleeper to wake; None when nobody sleeps."""
        self._forget_cancelled()
        return self._timers[0].deadline - self._elapsed if self._timers else None

    def advance(self, by: timedelta) -> None:
        """Move on and wake sleepers in the order of their deadlines, ties in the order in which they fell asleep.

        A woken task runs once the event loop gets to it, and then sees the time as it is after the whole advance,
        as after a pause of the process. Raises `ValueError` for a step back.
        """
        if by < timedelta(0):
            raise ValueError("time does not go back")
        target = self._elapsed + by
        while (wait := self.time_to_next) is not None and self._elapsed + wait <= target:
            timer = heappop(self._timers)
            self._elapsed = timer.deadline
            timer.callback()
        self._elapsed = target

    def _forget_cancelled(self) -> None:
        while self._timers and self._timers[0].cancelled:
            heappop(self._timers)
