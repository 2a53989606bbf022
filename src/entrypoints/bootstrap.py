"""The composition root: builds everything from the settings, in one place, by plain construction."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypeVar
from uuid import uuid4

from attrs import frozen
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from ..adapters.postgres.connection_pool import PooledConnections, connection_pool
from ..adapters.postgres.provisioning_store import PostgresProvisioningStore
from ..adapters.postgres.run_lock import PostgresRunLocks
from ..adapters.system.clock import SystemClock
from ..adapters.telemetry.backlog_metrics import ProvisioningBacklogMetrics
from ..adapters.telemetry.combined_telemetry import CombinedTelemetry
from ..adapters.telemetry.cycle_metrics import CycleMetrics
from ..adapters.telemetry.structured_log import StructuredLog
from ..application.chat_provision_retry import CHAT_PROVISION_RETRY, ChatProvisionRetry
from ..application.cycle_report import CycleReport
from ..application.options import JobOptions
from ..application.ports.clock import Clock
from ..application.ports.entropy import NewId, Spread
from ..application.ports.provisioning import ProvisioningBacklog, ProvisioningStore
from ..application.ports.run_lock import RunLocks
from ..application.ports.telemetry import Telemetry
from ..application.provision_deal_chat import ProvisionDealChat
from ..application.rehearsal import RehearsableJob, Rehearsal, UncontendedRunLocks
from ..application.requeue_provisions import RequeueProvisions
from ..application.run_cycle import run_cycle
from ..application.stop_signal import StopSignal
from .database import Database, PostgresDatabase
from .settings import Settings

Candidate = TypeVar("Candidate")

JOB_NAMES = (CHAT_PROVISION_RETRY,)

_SPARE_CONNECTIONS = 2  # for probes, scrapes and commands while every lane has one


@frozen(kw_only=True)
class ScheduledJob:
    """A periodic job as the worker and ``run-once`` see it; ``rehearse`` is the cycle that changes nothing."""

    name: str
    options: JobOptions
    run: Callable[[StopSignal], Awaitable[CycleReport]]
    rehearse: Callable[[StopSignal], Awaitable[CycleReport]]


@frozen(kw_only=True)
class Application:
    """Everything that the entry points use."""

    settings: Settings
    clock: Clock
    registry: CollectorRegistry
    database: Database
    jobs: Mapping[str, ScheduledJob]
    requeue: RequeueProvisions
    backlog_metrics: ProvisioningBacklogMetrics
    store: ProvisioningStore
    provisioning: ProvisionDealChat

    async def backlog(self) -> ProvisioningBacklog:
        """Count the chat backlog now, and show it in the metrics."""
        as_of = self.clock.now()
        backlog = await self.store.backlog(as_of=as_of, rules=self.settings.chat_provision_retry.rules)
        self.backlog_metrics.measured(backlog, as_of=as_of)
        return backlog


@asynccontextmanager
async def bootstrap(
    settings: Settings,
    *,
    clock: Clock | None = None,
    telemetry: Telemetry | None = None,
    locks: RunLocks | None = None,
    store: ProvisioningStore | None = None,
    database: Database | None = None,
    new_id: NewId = uuid4,
    spread: Spread = random.random,
) -> AsyncGenerator[Application]:
    """The application of ``settings``, with other parts in place of its own where they are given.

    Nothing connects before it is used, so this succeeds while the database is down. Everything opened is closed with
    the context, whatever ends it.
    """
    async with AsyncExitStack() as resources:
        chat = settings.chat_provision_retry
        clock = clock or SystemClock()
        registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=registry)
        if telemetry is None:
            telemetry = CombinedTelemetry(StructuredLog(), CycleMetrics(registry, JOB_NAMES))
        if store is None or database is None:
            pool = connection_pool(settings.database_url, size=chat.concurrency + _SPARE_CONNECTIONS)
            connections = PooledConnections(await resources.enter_async_context(pool))
            lock_connections = connections
            if settings.lock_database_url is not None:
                pool = connection_pool(settings.lock_database_url, size=1)
                lock_connections = PooledConnections(await resources.enter_async_context(pool))
            store = store or PostgresProvisioningStore(connections)
            database = database or PostgresDatabase(
                database_url=settings.database_url,
                lock_url=settings.lock_url,
                connections=connections,
                lock_connections=lock_connections,
            )
        provisioning = ProvisionDealChat(clock=clock, new_id=new_id, spread=spread, rules=chat.rules)
        chat_job = _scheduled(
            ChatProvisionRetry(store=store, provisioning=provisioning),
            options=chat,
            locks=locks or PostgresRunLocks(database_url=settings.lock_url, ttl=chat.lock_ttl, clock=clock),
            clock=clock,
            telemetry=telemetry,
            new_id=new_id,
        )
        yield Application(
            settings=settings,
            clock=clock,
            registry=registry,
            database=database,
            jobs={job.name: job for job in (chat_job,)},
            requeue=RequeueProvisions(store=store, clock=clock, rules=chat.rules),
            backlog_metrics=ProvisioningBacklogMetrics(registry),
            store=store,
            provisioning=provisioning,
        )


def _scheduled(
    job: RehearsableJob[Candidate],
    *,
    options: JobOptions,
    locks: RunLocks,
    clock: Clock,
    telemetry: Telemetry,
    new_id: NewId,
) -> ScheduledJob:
    async def run(stop: StopSignal) -> CycleReport:
        return await run_cycle(
            job,
            limits=options.limits,
            locks=locks,
            clock=clock,
            telemetry=telemetry,
            new_id=new_id,
            stop=stop,
        )

    async def rehearse(stop: StopSignal) -> CycleReport:
        return await run_cycle(
            Rehearsal(job),
            limits=options.limits,
            locks=UncontendedRunLocks(),
            clock=clock,
            telemetry=CombinedTelemetry(),
            new_id=new_id,
            stop=stop,
        )

    return ScheduledJob(name=job.name, options=options, run=run, rehearse=rehearse)
