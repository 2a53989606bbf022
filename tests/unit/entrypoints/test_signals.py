"""Stopping on signals, in this very process."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable
from datetime import timedelta
from typing import TypeVar

import pytest
from messenger_jobs.application.stop_signal import StopSignal
from messenger_jobs.entrypoints.signals import CutShort, stopping_on_signals

from tests.support.captured_logs import captured_logs
from tests.support.eventually import eventually

T = TypeVar("T")

LONG = timedelta(minutes=10)
BOTH = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])


class Work:
    """Turns until it is told to stop, and then takes as long as it likes."""

    def __init__(self, *, heeds_stop: bool = True) -> None:
        self.started = asyncio.Event()
        self.stopping = asyncio.Event()
        self.cleaned_up = False
        self._heeds_stop = heeds_stop

    async def __call__(self, stop: StopSignal) -> str:
        self.started.set()
        try:
            await stop.wait()
            self.stopping.set()
            if not self._heeds_stop:
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            self.cleaned_up = True
            raise
        return "finished"


async def bounded(work: Awaitable[T]) -> T:
    return await asyncio.wait_for(work, 10)


def send(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


async def test_without_a_signal_the_result_comes_back() -> None:
    async def work(stop: StopSignal) -> str:
        return f"stop requested: {stop.requested}"

    assert await stopping_on_signals(work, grace=LONG) == "stop requested: False"


@BOTH
async def test_first_signal_lets_the_work_finish(number: signal.Signals) -> None:
    with captured_logs() as logs:
        work = Work()
        running = asyncio.create_task(stopping_on_signals(work, grace=LONG))
        await bounded(work.started.wait())

        send(number)

        assert await bounded(running) == "finished"
    assert logs.parsed[0]["event"] == "stop requested"
    assert logs.parsed[0]["signal"] == number.name


@BOTH
async def test_second_signal_cancels_and_waits_for_the_clean_up(number: signal.Signals) -> None:
    with captured_logs():
        work = Work(heeds_stop=False)
        running = asyncio.create_task(stopping_on_signals(work, grace=LONG))
        await bounded(work.started.wait())
        send(signal.SIGTERM)
        await bounded(work.stopping.wait())

        send(number)

        with pytest.raises(CutShort):
            await bounded(running)
    assert work.cleaned_up


async def test_third_signal_does_not_disturb_the_clean_up() -> None:
    cleaning, go_on = asyncio.Event(), asyncio.Event()
    cleaned_up = False

    async def work(stop: StopSignal) -> None:
        nonlocal cleaned_up
        try:
            await stop.wait()
            await asyncio.Event().wait()
        finally:
            cleaning.set()
            await go_on.wait()
            cleaned_up = True

    with captured_logs() as logs:
        running = asyncio.create_task(stopping_on_signals(work, grace=LONG))
        await asyncio.sleep(0)
        send(signal.SIGTERM)
        await eventually(lambda: "stop requested" in logs.events())
        send(signal.SIGTERM)
        await bounded(cleaning.wait())

        send(signal.SIGTERM)
        await asyncio.to_thread(lambda: None)  # the loop has turned, and has seen the signal
        go_on.set()

        with pytest.raises(CutShort):
            await bounded(running)
    assert cleaned_up


async def test_end_of_the_grace_cancels() -> None:
    with captured_logs() as logs:
        work = Work(heeds_stop=False)
        running = asyncio.create_task(stopping_on_signals(work, grace=timedelta(milliseconds=10)))
        await bounded(work.started.wait())

        send(signal.SIGTERM)

        with pytest.raises(CutShort):
            await bounded(running)
    assert work.cleaned_up
    assert logs.parsed[-1]["reason"] == "shutdown grace is over"


async def test_cancellation_from_outside_is_no_signal() -> None:
    work = Work()
    running = asyncio.create_task(stopping_on_signals(work, grace=LONG))
    await bounded(work.started.wait())

    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await bounded(running)
    assert work.cleaned_up


async def test_signals_are_ours_only_while_the_work_runs() -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)

    async def work(stop: StopSignal) -> None:
        del stop

    await stopping_on_signals(work, grace=LONG)

    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
