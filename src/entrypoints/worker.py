"""The worker: periodic jobs, relay and consumer until a stop is requested, and the probes beside them.

At start the settings were read already, and the database is looked at once. What will not get better by itself
(refused credentials, a missing or old schema) ends the worker with one sentence, so that a wrong deployment shows at
once. A database that cannot be reached does not: it may be down for a minute and must not need a person, so the worker
stays, is not ready (``/readyz``), and every tick tries again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import structlog
from structlog.typing import FilteringBoundLogger

from ..adapters.telemetry.frames import frames
from ..application.periodic import run_periodically
from ..application.ports.errors import DatabaseUnavailable
from ..application.stop_signal import StopSignal
from .bootstrap import Application, ScheduledJob
from .database import DatabaseUnusable
from .http_server import Probes, serving_http
from .liveness import Liveness
from .settings import variable


async def run_worker(application: Application, job_names: Iterable[str], stop: StopSignal) -> None:
    """Run the named jobs and loops until ``stop`` is requested; then return once the rows in hand are finished.

    Raises `DatabaseUnusable` or `CannotListen` at start. Cancellation rolls the rows in hand back.
    """
    log: FilteringBoundLogger = structlog.get_logger(__name__)
    asyncio.get_running_loop().set_exception_handler(_report)
    try:
        await application.database.ensure_usable()
    except DatabaseUnusable as error:
        if not isinstance(error.reason, DatabaseUnavailable):
            raise
        log.warning("database unreachable at start", error_code=error.reason.code)
    names = [*job_names]
    jobs = [application.jobs[name] for name in names if name in application.jobs]
    loops = [loop for loop in application.messaging.loops if loop.name in names]
    patience = {job.name: _patience(job) for job in jobs} | {loop.name: loop.patience for loop in loops}
    liveness = Liveness(application.clock, patience)
    async with _probes(application, liveness), asyncio.TaskGroup() as running:
        log.info("worker started", jobs=[*patience])
        if application.messaging.relay is None:
            log.warning(
                "no broker set, events stay in the outbox", setting=variable("kafka_bootstrap_servers")
            )
        for loop in loops:
            running.create_task(loop.run(stop, beat=partial(liveness.cycle_ended, loop.name)))
        for job in jobs:
            cycle = _one_cycle(job, liveness, stop)
            running.create_task(
                run_periodically(
                    cycle, interval=job.options.polling_interval, clock=application.clock, stop=stop
                )
            )
    log.info("worker stopped")


def _one_cycle(job: ScheduledJob, liveness: Liveness, stop: StopSignal) -> Callable[[], Awaitable[None]]:
    async def cycle() -> None:
        try:
            await job.run(stop)
        except Exception as error:  # noqa: BLE001 - a defect in one cycle must not end all later ones
            log: FilteringBoundLogger = structlog.get_logger(__name__)
            log.error("cycle crashed", job=job.name, error_code=type(error).__name__, frames=frames(error))
        liveness.cycle_ended(job.name)

    return cycle


def _patience(job: ScheduledJob) -> timedelta:
    return 2 * job.options.polling_interval + job.options.max_run_duration


@asynccontextmanager
async def _probes(application: Application, liveness: Liveness) -> AsyncGenerator[None]:
    port = application.settings.http_port
    if not port:
        yield
        return

    async def measure() -> None:
        await application.backlog()
        await application.recordings_backlog()
        await application.outbox_backlog()

    probes = Probes(
        complaints=liveness.complaints,
        ready=application.database.ping,
        measure=measure,
        unmeasured=application.unmeasured,
        registry=application.registry,
    )
    async with serving_http(port, probes):
        yield


def _report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """The loop's own report of an error that nobody waits for quotes the exception, and that may quote a row."""
    del loop
    log: FilteringBoundLogger = structlog.get_logger(__name__)
    error = context.get("exception")
    if isinstance(error, BaseException):
        log.error("error in the background", error_code=type(error).__name__, frames=frames(error))
    else:
        log.error("error in the background", error_code=str(context.get("message", "unknown")))
