"""A service with an event loop of its own runs both jobs as tasks, on the pool that it has anyway.

Every replica of the service may do so: the run lock lets one of them work at a time.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any, TypeVar
from uuid import uuid4

from messenger_jobs.adapters.postgres import (
    PooledConnections,
    PostgresFinalizationStore,
    PostgresProvisioningStore,
    PostgresRunLocks,
)
from messenger_jobs.adapters.system import SystemClock
from messenger_jobs.adapters.telemetry import StructuredLog
from messenger_jobs.application import (
    Announcer,
    ChatProvisionRetry,
    ChatProvisionRetryOptions,
    CycleReport,
    JobOptions,
    PeriodicJob,
    ProvisionDealChat,
    RecordingFinalizeRetry,
    RecordingFinalizeRetryOptions,
    StopSignal,
    run_cycle,
    run_periodically,
)
from messenger_jobs.application.ports import RecordingStorage
from psycopg_pool import AsyncConnectionPool

Candidate = TypeVar("Candidate")


async def run_jobs(
    pool: AsyncConnectionPool[Any], storage: RecordingStorage, stop: StopSignal, *, lock_url: str
) -> None:
    """Run both jobs until ``stop`` is requested, then return once the rows in hand are finished.

    ``lock_url`` leads to the server itself: the run lock has a connection of its own, beside the pool.
    """
    clock, telemetry = SystemClock(), StructuredLog()

    async def every_minute(job: PeriodicJob[Candidate], options: JobOptions) -> None:
        locks = PostgresRunLocks(database_url=lock_url, ttl=options.lock_ttl, clock=clock)

        async def cycle() -> CycleReport:
            return await run_cycle(
                job,
                limits=options.limits,
                locks=locks,
                clock=clock,
                telemetry=telemetry,
                new_id=uuid4,
                stop=stop,
            )

        await run_periodically(cycle, interval=options.polling_interval, clock=clock, stop=stop)

    chats, recordings = ChatProvisionRetryOptions(), RecordingFinalizeRetryOptions()
    provisioning = ProvisionDealChat(clock=clock, new_id=uuid4, spread=random.random, rules=chats.rules)
    async with asyncio.TaskGroup() as tasks:
        # The rest of the pool stays the service's own.
        chat_connections = PooledConnections(pool, share=chats.concurrency)
        chat_job = ChatProvisionRetry(
            store=PostgresProvisioningStore(chat_connections), provisioning=provisioning
        )
        tasks.create_task(every_minute(chat_job, chats))
        recording_job = RecordingFinalizeRetry(
            store=PostgresFinalizationStore(PooledConnections(pool, share=recordings.concurrency)),
            storage=storage,
            announcer=Announcer(clock=clock, new_id=uuid4),
            clock=clock,
            spread=random.random,
            rules=recordings.rules,
            telemetry=telemetry,
            looks_at_once=recordings.concurrency,
        )
        tasks.create_task(every_minute(recording_job, recordings))
