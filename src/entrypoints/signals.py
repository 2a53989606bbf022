"""Stopping on a signal: politely first, then at once."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any, Final, TypeVar

import structlog

from ..application.stop_signal import StopSignal

T = TypeVar("T")

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class CutShort(Exception):
    """The work was cancelled: the rows in hand are rolled back, nothing is half done."""


async def stopping_on_signals(work: Callable[[StopSignal], Coroutine[Any, Any, T]], *, grace: timedelta) -> T:
    """Await ``work`` while SIGTERM and SIGINT stop it.

    The first signal requests a stop: no new row is started, the rows in hand are finished. A second one, or the end
    of ``grace`` after the first, cancels; then `CutShort` is raised once everything is rolled back and released.
    """
    log = structlog.get_logger(__name__)
    loop = asyncio.get_running_loop()
    stop = StopSignal()
    task = loop.create_task(work(stop))
    cut_short = False
    patience: asyncio.TimerHandle | None = None

    def cancel(reason: str) -> None:
        nonlocal cut_short
        if cut_short:
            return
        cut_short = True
        log.warning("stopping at once", reason=reason)
        task.cancel()

    def on_signal(name: str) -> None:
        nonlocal patience
        if stop.requested:
            cancel("second signal")
            return
        log.info("stop requested", signal=name)
        stop.request()
        patience = loop.call_later(grace.total_seconds(), cancel, "shutdown grace is over")

    handlers_before = {number: signal.getsignal(number) for number in _SIGNALS}
    for number in _SIGNALS:
        loop.add_signal_handler(number, on_signal, number.name)
    try:
        return await task
    except asyncio.CancelledError:
        if cut_short:
            raise CutShort("stopped before the rows in hand were finished; they are rolled back") from None
        raise
    finally:
        for number, handler in handlers_before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)
        if patience is not None:
            patience.cancel()
