"""The PostgreSQL adapter's harness for the outbox queue."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from attrs import asdict
from messenger_jobs.adapters.memory.schema import OutboxRow
from messenger_jobs.adapters.postgres.connection_pool import Pool, PooledConnections, connection_pool
from messenger_jobs.adapters.postgres.connections import Connections
from messenger_jobs.adapters.postgres.host_connection import HostConnection
from messenger_jobs.adapters.postgres.outbox_queue import PostgresOutboxQueue
from messenger_jobs.application.ports.outbox import OutboxMessage
from psycopg import AsyncConnection, sql
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from tests.contract.outbox_queue_harness import OutboxQueueHarness
from tests.contract.postgres_harness import BLOCKED, LEFT_BEHIND, LIMITS, a_hosts_connection
from tests.support.eventually import eventually

Observer = psycopg.Connection[dict[str, Any]]


class PostgresOutboxQueueHarness(OutboxQueueHarness):
    """What is the same, wherever the queues have their connections from; the observer is none of them."""

    def __init__(self, observer: Observer, url: str, *connections: Connections) -> None:
        self.queue, self.other = map(PostgresOutboxQueue, connections)
        self.observer = observer
        self.url = url

    @asynccontextmanager
    async def writing(self, *rows: OutboxRow) -> AsyncGenerator[None]:
        async with await AsyncConnection.connect(self.url) as connection:
            for row in rows:
                await connection.execute(*_upsert(row))
            yield

    async def stored(self) -> list[OutboxRow]:
        rows = self.observer.execute("select * from messenger.outbox_messages order by id").fetchall()
        return [_outbox_row(row) for row in rows]

    async def until_blocked(self) -> None:
        await eventually(lambda: bool(self.observer.execute(BLOCKED.encode()).fetchall()))

    async def pass_lock_timeout(self) -> None:
        await eventually(lambda: not self.observer.execute(BLOCKED.encode()).fetchall())

    async def assert_nothing_left(self) -> None:
        await eventually(lambda: not self.observer.execute(LEFT_BEHIND.encode()).fetchall())


class PooledOutboxQueueHarness(PostgresOutboxQueueHarness):
    """Two pools, as two processes have them."""

    def __init__(self, observer: Observer, url: str, *pools: Pool) -> None:
        super().__init__(observer, url, *map(PooledConnections, pools))
        self.pools = pools

    async def assert_nothing_left(self) -> None:
        await super().assert_nothing_left()
        await eventually(lambda: all(map(_everything_given_back, self.pools)))


class HostsOutboxQueueHarness(PostgresOutboxQueueHarness):
    """Two hosts, each with one open connection that has settings of its own."""

    def __init__(self, observer: Observer, url: str, *hosts: AsyncConnection[Any]) -> None:
        super().__init__(observer, url, *map(HostConnection, hosts))
        self.host, _ = hosts

    async def assert_nothing_left(self) -> None:
        await super().assert_nothing_left()
        if self.host.closed:  # by psycopg, at the second cancellation: the host connects again
            self.host = await a_hosts_connection(self.url)
            self.queue = PostgresOutboxQueue(HostConnection(self.host))


@asynccontextmanager
async def pooled_outbox_queue_harness(url: str) -> AsyncGenerator[PooledOutboxQueueHarness]:
    limited = make_conninfo(url, options=LIMITS)
    with psycopg.Connection[dict[str, Any]].connect(url, autocommit=True, row_factory=dict_row) as observer:
        async with connection_pool(limited, size=3) as pool, connection_pool(limited, size=3) as other:
            yield PooledOutboxQueueHarness(observer, limited, pool, other)


@asynccontextmanager
async def hosts_outbox_queue_harness(url: str) -> AsyncGenerator[HostsOutboxQueueHarness]:
    limited = make_conninfo(url, options=LIMITS)
    with psycopg.Connection[dict[str, Any]].connect(url, autocommit=True, row_factory=dict_row) as observer:
        async with await a_hosts_connection(limited) as other:
            harness = HostsOutboxQueueHarness(observer, limited, await a_hosts_connection(limited), other)
            try:
                yield harness
            finally:
                await harness.host.close()


def _everything_given_back(pool: Pool) -> bool:
    stats = pool.get_stats()
    return stats["pool_available"] == stats["pool_size"] and not stats.get("requests_waiting")


def _outbox_row(row: dict[str, Any]) -> OutboxRow:
    message = OutboxMessage(**{name: row.pop(name) for name in OutboxMessage.__annotations__})
    return OutboxRow(message=message, **row)


def _upsert(row: OutboxRow) -> tuple[sql.Composed, dict[str, Any]]:
    columns = asdict(row)
    columns |= columns.pop("message")
    columns |= {name: Jsonb(columns[name]) for name in ("payload", "headers")}
    query = sql.SQL(
        "insert into messenger.outbox_messages ({}) overriding system value values ({})"
        " on conflict (id) do update set {}"
    ).format(
        sql.SQL(", ").join(map(sql.Identifier, columns)),
        sql.SQL(", ").join(map(sql.Placeholder, columns)),
        sql.SQL(", ").join(
            sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in columns if name != "id"
        ),
    )
    return query, columns
