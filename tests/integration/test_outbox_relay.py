"""The relay on a real database, with a broker that does as it is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from uuid import uuid4

import psycopg
import pytest
from messenger_jobs.adapters.memory.relay_telemetry import MemoryRelayTelemetry
from messenger_jobs.adapters.postgres.connection_pool import PooledConnections, connection_pool
from messenger_jobs.adapters.postgres.outbox_queue import PostgresOutboxQueue
from messenger_jobs.adapters.postgres.run_lock import PostgresRunLocks
from messenger_jobs.adapters.system.clock import SystemClock
from messenger_jobs.application.cycle_report import CycleEnd
from messenger_jobs.application.options import OutboxRelayOptions
from messenger_jobs.application.outbox_relay import OutboxRelay
from messenger_jobs.application.stop_signal import StopSignal

from tests.support.eventually import eventually
from tests.support.scripted_publisher import ScriptedPublisher
from tests.unit.application.relays import OUTAGE, TOO_LARGE

FILL = """
insert into messenger.outbox_messages
    (event_id, topic, message_key, aggregate_type, aggregate_id, event_type, contract_version, payload, occurred_at)
select ('00000000-0000-0000-0000-' || to_hex(number + x'100000000000'::bigint))::uuid, 'topic', (number % 7)::text,
    'Deal', number::text, 'Changed', 1, '{"number": 1}', now()
from generate_series(1, 1000) as number
"""
LOCK_SESSIONS = """
select pid from pg_stat_activity
where datname = current_database() and application_name = 'messenger-jobs lock outbox-relay'
"""
END_LOCK_SESSIONS = """
select pg_terminate_backend(pid) from pg_stat_activity
where datname = current_database() and application_name = 'messenger-jobs lock outbox-relay'
"""
OPTIONS = OutboxRelayOptions(polling_interval=timedelta(milliseconds=20), batch_size=100)


@asynccontextmanager
async def a_relay(url: str, publisher: ScriptedPublisher) -> AsyncGenerator[OutboxRelay]:
    clock = SystemClock()
    async with connection_pool(url, size=3) as pool:
        yield OutboxRelay(
            queue=PostgresOutboxQueue(PooledConnections(pool)),
            publisher=publisher,
            locks=PostgresRunLocks(database_url=url, ttl=OPTIONS.lock_ttl, clock=clock),
            clock=clock,
            telemetry=MemoryRelayTelemetry(),
            options=OPTIONS,
            new_id=uuid4,
            spread=lambda: 0.0,
        )


@pytest.fixture
def observer(database_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(FILL)
        yield connection


def unpublished(observer: psycopg.Connection) -> int:
    row = observer.execute(
        "select count(*) from messenger.outbox_messages where published_at is null and dead_at is null"
    ).fetchone()
    assert row is not None
    return int(row[0])


def first_occurrences_are_in_order(publisher: ScriptedPublisher) -> bool:
    numbers = [number % 2**44 for number in dict.fromkeys(publisher.log)]
    return all(
        of_key == sorted(of_key)
        for of_key in ([number for number in numbers if number % 7 == key] for key in range(7))
    )


async def test_everything_is_published_in_order_and_marked(
    database_url: str, observer: psycopg.Connection
) -> None:
    publisher = ScriptedPublisher()
    async with a_relay(database_url, publisher) as relay:
        report = await relay.run_once(StopSignal())
    assert (report.end, report.published) == (CycleEnd.COMPLETED, 1000)
    assert unpublished(observer) == 0
    assert len(publisher.log) == 1000
    assert first_occurrences_are_in_order(publisher)


async def test_two_relays_survive_killed_sessions_and_an_outage(
    database_url: str, observer: psycopg.Connection
) -> None:
    publisher, stop = ScriptedPublisher(every=OUTAGE), StopSignal()

    def terminated() -> bool:
        return bool(observer.execute(END_LOCK_SESSIONS).fetchall())

    async with (
        a_relay(database_url, publisher) as relay,
        a_relay(database_url, publisher) as other,
        asyncio.TaskGroup() as running,
    ):
        running.create_task(relay.run(stop))
        running.create_task(other.run(stop))
        await eventually(lambda: len(publisher.sent) >= 2)
        publisher.every = None
        for _ in range(3):
            await eventually(terminated)
        await eventually(lambda: unpublished(observer) == 0)
        stop.request()
    assert first_occurrences_are_in_order(publisher)
    assert set(publisher.log) == {2**44 + number for number in range(1, 1001)}
    await eventually(lambda: not observer.execute(LOCK_SESSIONS).fetchall())


async def test_lock_stays_on_one_connection_over_many_passes(
    database_url: str, observer: psycopg.Connection
) -> None:
    publisher, stop = ScriptedPublisher(), StopSignal()
    async with a_relay(database_url, publisher) as relay, asyncio.TaskGroup() as running:
        running.create_task(relay.run(stop))
        await eventually(lambda: unpublished(observer) == 0)
        sessions = observer.execute(LOCK_SESSIONS).fetchall()
        telemetry = relay.telemetry
        assert isinstance(telemetry, MemoryRelayTelemetry)
        passes = len(telemetry.passes)
        await eventually(lambda: len(telemetry.passes) >= passes + 5)
        assert observer.execute(LOCK_SESSIONS).fetchall() == sessions
        assert len(sessions) == 1
        stop.request()


async def test_parked_message_is_dead_in_the_database(
    database_url: str, observer: psycopg.Connection
) -> None:
    publisher = ScriptedPublisher()
    publisher.answers[2**44 + 5] = [TOO_LARGE]
    async with a_relay(database_url, publisher) as relay:
        report = await relay.run_once(StopSignal())
    assert (report.published, report.parked) == (999, 1)
    dead = observer.execute(
        "select message_key, attempts, last_error from messenger.outbox_messages where dead_at is not null"
    ).fetchall()
    assert dead == [("5", 1, TOO_LARGE.code)]
