"""The composition root: builds everything from the settings, in one place, by plain construction."""

from __future__ import annotations

import os
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TypeVar
from uuid import uuid4

from attrs import frozen
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from ..adapters.postgres.connection_pool import PooledConnections, connection_pool
from ..adapters.postgres.finalization_inspection import PostgresFinalizationInspection
from ..adapters.postgres.finalization_store import PostgresFinalizationStore
from ..adapters.postgres.outbox_queue import PostgresOutboxQueue
from ..adapters.postgres.provisioning_inspection import PostgresProvisioningInspection
from ..adapters.postgres.provisioning_store import PostgresProvisioningStore
from ..adapters.postgres.run_lock import PostgresRunLocks
from ..adapters.system.clock import SystemClock
from ..adapters.telemetry.backlog_metrics import ProvisioningBacklogMetrics
from ..adapters.telemetry.combined_telemetry import CombinedTelemetry
from ..adapters.telemetry.cycle_metrics import CycleMetrics
from ..adapters.telemetry.finalization_backlog_metrics import FinalizationBacklogMetrics
from ..adapters.telemetry.structured_log import StructuredLog
from ..application.announce_recording import Announcer
from ..application.chat_provision_retry import CHAT_PROVISION_RETRY, ChatProvisionRetry
from ..application.cycle_report import CycleReport
from ..application.finalize_uploaded_recording import FinalizeUploadedRecording
from ..application.inspect_finalizations import InspectFinalizations
from ..application.inspect_provisions import InspectProvisions
from ..application.inspection import Inspection
from ..application.open_finalization import OpenFinalization
from ..application.options import JobOptions, OutboxRelayOptions
from ..application.outbox_relay import OUTBOX_RELAY
from ..application.ports.check import Check
from ..application.ports.clock import Clock
from ..application.ports.entropy import NewId, Spread
from ..application.ports.event_publisher import EventPublisher
from ..application.ports.finalization import FinalizationBacklog, FinalizationStore
from ..application.ports.finalization_inspection import FinalizationInspection
from ..application.ports.outbox_queue import OutboxBacklog, OutboxQueue
from ..application.ports.provisioning import ProvisioningBacklog, ProvisioningStore
from ..application.ports.provisioning_inspection import ProvisioningInspection
from ..application.ports.recording_storage import RecordingStorage
from ..application.ports.run_lock import RunLocks
from ..application.ports.telemetry import Telemetry
from ..application.ports.tracing import Tracing
from ..application.provision_deal_chat import ProvisionDealChat
from ..application.recording_finalize_retry import RECORDING_FINALIZE_RETRY, RecordingFinalizeRetry
from ..application.rehearsal import RehearsableJob, Rehearsal, UncontendedRunLocks
from ..application.requeue_finalizations import RequeueFinalizations
from ..application.requeue_provisions import RequeueProvisions
from ..application.requeue_report import Requeue
from ..application.run_cycle import run_cycle
from ..application.stop_signal import StopSignal
from .checks import checks_of
from .database import Database, PostgresDatabase
from .messaging import (
    CONSUMER_CONCURRENCY,
    Messaging,
    Outbox,
    Surroundings,
    loop_names,
    messaging_of,
    outbox_of,
)
from .settings import Settings
from .tracing import tracer_provider, tracing_on

Candidate = TypeVar("Candidate")

JOB_NAMES = (CHAT_PROVISION_RETRY, RECORDING_FINALIZE_RETRY)
"""All there are; which of them there are with given settings, says `job_names`."""

_SPARE_CONNECTIONS = 2  # for probes, scrapes and commands while every lane has one


@frozen(kw_only=True)
class ScheduledJob:
    """A periodic job as the worker and ``run-once`` see it; ``rehearse`` is the cycle that changes nothing."""

    name: str
    options: JobOptions
    run: Callable[[StopSignal], Awaitable[CycleReport]]
    rehearse: Callable[[StopSignal], Awaitable[CycleReport]]
    requeue: Requeue
    inspection: Inspection


@frozen(kw_only=True)
class Recordings:
    """What there is for recordings, where they are enabled."""

    store: FinalizationStore
    open_finalization: OpenFinalization
    finalize_uploaded: FinalizeUploadedRecording
    backlog_metrics: FinalizationBacklogMetrics


@frozen(kw_only=True)
class Application:
    """Everything that the entry points use."""

    settings: Settings
    clock: Clock
    registry: CollectorRegistry
    database: Database
    jobs: Mapping[str, ScheduledJob]
    backlog_metrics: ProvisioningBacklogMetrics
    store: ProvisioningStore
    provisioning: ProvisionDealChat
    recordings: Recordings | None
    outbox: Outbox
    messaging: Messaging
    checks: Callable[[], Sequence[Check]]

    async def backlog(self) -> ProvisioningBacklog:
        """Count the chat backlog now, and show it in the metrics."""
        as_of = self.clock.now()
        backlog = await self.store.backlog(as_of=as_of, rules=self.settings.chat_provision_retry.rules)
        self.backlog_metrics.measured(backlog, as_of=as_of)
        return backlog

    async def recordings_backlog(self) -> FinalizationBacklog | None:
        """Count the recordings' backlog now, and show it in the metrics; None where recordings are not enabled."""
        if self.recordings is None:
            return None
        as_of = self.clock.now()
        backlog = await self.recordings.store.backlog(as_of=as_of)
        self.recordings.backlog_metrics.measured(backlog, as_of=as_of)
        return backlog

    async def outbox_backlog(self) -> OutboxBacklog:
        """Count what is to be published now, and show it in the metrics."""
        as_of = self.clock.now()
        backlog = await self.outbox.queue.backlog()
        self.outbox.backlog_metrics.measured(backlog, as_of=as_of)
        return backlog

    def unmeasured(self) -> None:
        """Show in the metrics that no backlog could be counted."""
        self.backlog_metrics.unknown()
        self.outbox.backlog_metrics.unknown()
        if self.recordings is not None:
            self.recordings.backlog_metrics.unknown()


def job_names(settings: Settings) -> tuple[str, ...]:
    """The jobs that there are with these settings."""
    return JOB_NAMES if settings.recordings_enabled else (CHAT_PROVISION_RETRY,)


@asynccontextmanager
async def bootstrap(
    settings: Settings,
    *,
    clock: Clock | None = None,
    telemetry: Telemetry | None = None,
    locks: RunLocks | None = None,
    store: ProvisioningStore | None = None,
    finalizations: FinalizationStore | None = None,
    inspection: ProvisioningInspection | None = None,
    finalization_inspection: FinalizationInspection | None = None,
    storage: RecordingStorage | None = None,
    queue: OutboxQueue | None = None,
    publisher: EventPublisher | None = None,
    tracing: Tracing | None = None,
    database: Database | None = None,
    checks: Sequence[Check] | None = None,
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
        metrics = CycleMetrics(registry, _measured_jobs(settings, publisher))
        if telemetry is None:
            telemetry = CombinedTelemetry(StructuredLog(), metrics)
        provider = None
        if tracing is None:
            provider = await resources.enter_async_context(tracer_provider(os.environ))
            tracing = tracing_on(provider)
        enabled = settings.recordings_enabled
        of_recordings = (finalizations, finalization_inspection) if enabled else ()
        retried = store
        if None in (store, inspection, queue, database, *of_recordings):
            pool = await resources.enter_async_context(
                connection_pool(settings.database_url, size=_connections_needed(settings))
            )
            connections = lock_connections = PooledConnections(pool)
            if settings.lock_database_url is not None:
                lock_pool = connection_pool(settings.lock_database_url, size=1)
                lock_connections = PooledConnections(await resources.enter_async_context(lock_pool))
            retried = store or PostgresProvisioningStore(PooledConnections(pool, share=chat.concurrency))
            store = store or PostgresProvisioningStore(connections)
            inspection = inspection or PostgresProvisioningInspection(connections)
            finalizations = finalizations or PostgresFinalizationStore(
                PooledConnections(pool, share=settings.recording_finalize_retry.concurrency)
            )
            finalization_inspection = finalization_inspection or PostgresFinalizationInspection(connections)
            queue = queue or PostgresOutboxQueue(connections)
            database = database or PostgresDatabase(
                database_url=settings.database_url,
                lock_url=settings.lock_url,
                connections=connections,
                lock_connections=lock_connections,
            )
        assert store is not None
        assert retried is not None
        assert inspection is not None
        assert queue is not None
        assert database is not None
        provisioning = ProvisionDealChat(
            clock=clock, new_id=new_id, spread=spread, rules=chat.rules, tracing=tracing
        )
        jobs = [
            _scheduled(
                ChatProvisionRetry(store=retried, provisioning=provisioning),
                options=chat,
                requeue=RequeueProvisions(store=store, clock=clock, rules=chat.rules),
                inspection=InspectProvisions(provisions=inspection, clock=clock, rules=chat.rules),
                locks=locks or _run_locks(settings, chat, clock),
                clock=clock,
                telemetry=telemetry,
                tracing=tracing,
                new_id=new_id,
            )
        ]
        recordings = None
        if enabled:
            assert finalizations is not None
            assert finalization_inspection is not None
            if storage is None:
                storage = await resources.enter_async_context(_recording_storage(settings))
            options = settings.recording_finalize_retry
            announcer = Announcer(clock=clock, new_id=new_id, tracing=tracing)
            recordings = Recordings(
                store=finalizations,
                open_finalization=OpenFinalization(store=finalizations, clock=clock, new_id=new_id),
                finalize_uploaded=FinalizeUploadedRecording(
                    store=finalizations, announcer=announcer, clock=clock
                ),
                backlog_metrics=FinalizationBacklogMetrics(registry),
            )
            job = RecordingFinalizeRetry(
                store=finalizations,
                storage=storage,
                announcer=announcer,
                clock=clock,
                spread=spread,
                rules=options.rules,
                telemetry=telemetry,
                looks_at_once=options.concurrency,
            )
            jobs.append(
                _scheduled(
                    job,
                    options=options,
                    requeue=RequeueFinalizations(store=finalizations, clock=clock),
                    inspection=InspectFinalizations(
                        finalizations=finalization_inspection, clock=clock, rules=options.rules
                    ),
                    locks=locks or _run_locks(settings, options, clock),
                    clock=clock,
                    telemetry=telemetry,
                    tracing=tracing,
                    new_id=new_id,
                )
            )
        surroundings = Surroundings(
            clock=clock,
            new_id=new_id,
            spread=spread,
            registry=registry,
            job_metrics=metrics.jobs,
            tracer_provider=provider,
        )
        messaging = await resources.enter_async_context(
            messaging_of(
                settings,
                queue=queue,
                publisher=publisher,
                store=store,
                provisioning=provisioning,
                locks=locks or _run_locks(settings, settings.outbox_relay, clock),
                surroundings=surroundings,
            )
        )
        yield Application(
            settings=settings,
            clock=clock,
            registry=registry,
            database=database,
            jobs={job.name: job for job in jobs},
            backlog_metrics=ProvisioningBacklogMetrics(registry),
            store=store,
            provisioning=provisioning,
            recordings=recordings,
            outbox=outbox_of(settings, queue, surroundings),
            messaging=messaging,
            # When they are wanted: Kafka's takes long to import.
            checks=lambda: checks_of(settings, storage if enabled else None) if checks is None else checks,
        )


def _measured_jobs(settings: Settings, publisher: EventPublisher | None) -> Sequence[str]:
    relays = publisher is not None or OUTBOX_RELAY in loop_names(settings)
    return (*job_names(settings), OUTBOX_RELAY) if relays else job_names(settings)


def _connections_needed(settings: Settings) -> int:
    lanes = settings.chat_provision_retry.concurrency + 2  # the relay's
    if settings.recordings_enabled:
        lanes += settings.recording_finalize_retry.concurrency
    if settings.kafka_bootstrap_servers is not None:
        lanes += CONSUMER_CONCURRENCY
    return lanes + _SPARE_CONNECTIONS


def _run_locks(settings: Settings, options: JobOptions | OutboxRelayOptions, clock: Clock) -> RunLocks:
    return PostgresRunLocks(database_url=settings.lock_url, ttl=options.lock_ttl, clock=clock)


def _recording_storage(settings: Settings) -> AbstractAsyncContextManager[RecordingStorage]:
    from ..adapters.s3.recording_storage import S3RecordingStorage  # noqa: PLC0415 - takes long to import

    options = settings.recording_finalize_retry
    return S3RecordingStorage(
        endpoint=settings.s3_endpoint or "",
        access_key=settings.s3_access_key or "",
        secret_key=settings.s3_secret_key or "",
        region=settings.s3_region,
        bucket=settings.s3_bucket_call_recordings or "",
        secure=settings.s3_secure,
        threads=options.concurrency,
        storage_timeout=options.storage_timeout,
    )


def _scheduled(
    job: RehearsableJob[Candidate],
    *,
    options: JobOptions,
    requeue: Requeue,
    inspection: Inspection,
    locks: RunLocks,
    clock: Clock,
    telemetry: Telemetry,
    tracing: Tracing,
    new_id: NewId,
) -> ScheduledJob:
    async def run(stop: StopSignal) -> CycleReport:
        return await run_cycle(
            job,
            limits=options.limits,
            locks=locks,
            clock=clock,
            telemetry=telemetry,
            tracing=tracing,
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

    return ScheduledJob(
        name=job.name,
        options=options,
        run=run,
        rehearse=rehearse,
        requeue=requeue,
        inspection=inspection,
    )
