"""The PostgreSQL adapter's harness for the outbox queue."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from attrs import asdict
from messenger_jobs.adapters.memory.schema import OutboxRow
from messenger_jobs.adapters.postgres.connections import Connections
from messenger_jobs.adapters.postgres.outbox_queue import PostgresOutboxQueue
from messenger_jobs.application.ports.outbox import OutboxMessage
from psycopg import AsyncConnection, sql
from psycopg.types.json import Jsonb

from tests.contract.outbox_queue_harness import OutboxQueueHarness
from tests.contract.postgres_users import PostgresUsers, TwoHosts, TwoPools, on_two_hosts, on_two_pools


class PostgresOutboxQueueHarness(PostgresUsers, OutboxQueueHarness):
    """On tables as the migrations make them."""

    def lend(self, *connections: Connections) -> None:
        self.queue, self.other = map(PostgresOutboxQueue, connections)

    @asynccontextmanager
    async def writing(self, *rows: OutboxRow) -> AsyncGenerator[None]:
        async with await AsyncConnection.connect(self.url) as connection:
            for row in rows:
                await connection.execute(*_upsert(row))
            yield

    async def stored(self) -> list[OutboxRow]:
        rows = self.observer.execute("select * from messenger.outbox_messages order by id").fetchall()
        return [_outbox_row(row) for row in rows]


class PooledOutboxQueueHarness(TwoPools, PostgresOutboxQueueHarness):
    """See both."""


class HostsOutboxQueueHarness(TwoHosts, PostgresOutboxQueueHarness):
    """See both."""


def pooled_outbox_queue_harness(url: str) -> AbstractAsyncContextManager[PooledOutboxQueueHarness]:
    return on_two_pools(PooledOutboxQueueHarness, url)


def hosts_outbox_queue_harness(url: str) -> AbstractAsyncContextManager[HostsOutboxQueueHarness]:
    return on_two_hosts(HostsOutboxQueueHarness, url)


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
