from __future__ import annotations

import random
from uuid import uuid4

from messenger_jobs.adapters.memory import MemoryTelemetry
from messenger_jobs.adapters.postgres import PooledConnections, PostgresRunLocks
from messenger_jobs.adapters.system import SystemClock
from messenger_jobs.application import (
    ChatProvisionRetryOptions,
    CycleEnd,
    CycleReport,
    Outcome,
    ProvisionDealChat,
    StopSignal,
    run_cycle,
)
from psycopg_pool import AsyncConnectionPool

from examples.own_outbox import TABLE, chat_job
from tests.e2e.rows import Rows
from tests.examples.host_rows import query, topics


async def one_cycle(url: str) -> CycleReport:
    clock, options = SystemClock(), ChatProvisionRetryOptions()
    provisioning = ProvisionDealChat(clock=clock, new_id=uuid4, spread=random.random, rules=options.rules)
    async with AsyncConnectionPool(url, open=False) as pool:
        return await run_cycle(
            chat_job(PooledConnections(pool), provisioning),
            limits=options.limits,
            locks=PostgresRunLocks(database_url=url, ttl=options.lock_ttl, clock=clock),
            clock=clock,
            telemetry=MemoryTelemetry(),
            new_id=uuid4,
            stop=StopSignal(),
        )


async def test_events_are_in_the_hosts_table_and_nowhere_else(database_url: str) -> None:
    query(database_url, TABLE)
    rows = Rows(database_url)
    rows.seed(4, without_members=2)
    report = await one_cycle(database_url)
    assert (report.end, report.counts) == (CycleEnd.COMPLETED, {Outcome.PROVISIONED: 2, Outcome.RETRIED: 2})
    ready = query(
        database_url, "select deal_id::text from messenger.deal_chat_provisions where status = 'Ready'"
    )
    events = query(database_url, "select key from host_events where topic like 'pin.messenger.deal-chat-%%'")
    assert sorted(events) == sorted(ready)
    assert topics(database_url) == []


async def test_chat_is_not_committed_without_the_hosts_event(database_url: str) -> None:
    """Here the host forgot to make its table."""
    rows = Rows(database_url)
    rows.seed(1)
    report = await one_cycle(database_url)
    assert report.end is CycleEnd.ABORTED
    assert [row.untouched for row in rows.all()] == [True]
