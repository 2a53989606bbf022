"""A whole cycle of the job over a table full of due rows, as the worker runs it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from resource import RUSAGE_CHILDREN, getrusage
from typing import Any, TypeVar

from messenger_jobs.application.chat_provision_retry import CHAT_PROVISION_RETRY
from messenger_jobs.application.cycle_report import CycleReport, Outcome
from messenger_jobs.application.stop_signal import StopSignal
from messenger_jobs.entrypoints.bootstrap import bootstrap
from messenger_jobs.entrypoints.settings import load_settings

Result = TypeVar("Result")


def new_event_loop() -> Callable[[], asyncio.AbstractEventLoop]:
    """The loop that the worker uses: uvloop's where it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Run ``work`` on the worker's kind of loop."""
    with asyncio.Runner(loop_factory=new_event_loop()) as runner:
        return runner.run(work)


def variables(url: str, **chat: object) -> dict[str, str]:
    """The environment of a worker whose cycle lasts until the table is empty."""
    prefix = "MESSENGER_CHAT_PROVISION_RETRY_"
    options = {"MAX_RUN_DURATION": "1h", "LOCK_TTL": "2h", **chat}
    return {
        "MESSENGER_DATABASE_URL": url,
        **{f"{prefix}{name}": str(value) for name, value in options.items()},
    }


async def _cycle(url: str, concurrency: int) -> tuple[CycleReport, float]:
    async with bootstrap(load_settings(variables(url, CONCURRENCY=concurrency))) as application:
        started = time.perf_counter()
        report = await application.jobs[CHAT_PROVISION_RETRY].run(StopSignal())
        return report, time.perf_counter() - started


def rows_per_second(url: str, *, rows: int, concurrency: int) -> float:
    """Provisions per second of one cycle over ``rows`` due rows, all of which must become ready."""
    report, seconds = run(_cycle(url, concurrency))
    if report.counts.get(Outcome.PROVISIONED, 0) != rows or len(report.counts) > 1:
        raise RuntimeError(f"the cycle was to provision {rows} rows, but: {report}")
    return rows / seconds


def peak_memory_of_worker(url: str) -> float:
    """MiB that a process needed at most for ``run-once`` over the whole table."""
    command = [sys.executable, "-m", "messenger_jobs", "run-once", CHAT_PROVISION_RETRY, "--json"]
    environment = variables(url, CONCURRENCY=8) | {"MESSENGER_LOG_LEVEL": "warning"}
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    return getrusage(RUSAGE_CHILDREN).ru_maxrss / 1024
