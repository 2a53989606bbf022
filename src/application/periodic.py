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
    last_tick = 0
    while not stop.requested:
        await work()
        passed = int((clock.monotonic() - started) // period)
        if passed > last_tick:
            last_tick = passed
            continue
        last_tick += 1
        await stop.cut_short(clock.sleep(started + last_tick * period - clock.monotonic()))
