"""The fixed cadence of a periodic job."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta

from .ports.clock import Clock
from .stop_signal import StopSignal


async def run_periodically(
    work: Callable[[], Awaitable[object]],
    *,
    interval: timedelta,
    clock: Clock,
    stop: StopSignal,
) -> None:
    """Await ``work`` at once and then on every tick of a fixed grid, until a stop is requested.

    A tick never starts while ``work`` runs; ticks missed meanwhile collapse into one, which starts at once, and
    the grid stays where it was (the rule of .NET's ``PeriodicTimer``). What ``work`` raises ends the loop.
    """
    period = interval.total_seconds()
    started = clock.monotonic()
    tick = 0  # the latest one taken: started, or slept for

    def passed() -> int:
        return int((clock.monotonic() - started) // period)

    while not stop.requested:
        # The sleep may have taken far longer, as when the whole process was paused.
        tick = max(tick, passed())
        await work()
        tick += 1
        await stop.cut_short(clock.sleep(started + tick * period - clock.monotonic()))
