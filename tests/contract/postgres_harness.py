"""The PostgreSQL adapter's harness."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from attrs import asdict
from messenger_jobs.adapters.postgres.connection_pool import Pool, PooledConnections, connection_pool
from messenger_jobs.adapters.postgres.connections import Connections
from messenger_jobs.adapters.postgres.host_connection import HostConnection
from messenger_jobs.adapters.postgres.provisioning_store import PostgresProvisioningStore
from messenger_jobs.application.ports.outbox import OutboxMessage
from messenger_jobs.domain.chat import Chat, ChatEvent, Member, Participant
from messenger_jobs.domain.deal_chat_provision import DealChatProvision, ProvisionStatus
from messenger_jobs.domain.retry_schedule import RetrySchedule
from psycopg import AsyncConnection, AsyncRawCursor, sql
from psycopg.conninfo import make_conninfo
from psycopg.rows import DictRow, dict_row

from tests.contract.provisioning_harness import ProvisioningHarness, Stored, Thing
from tests.support.eventually import eventually

LIMITS = "-c lock_timeout=700ms -c deadlock_timeout=100ms"

BLOCKED = "select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
LEFT_BEHIND = """
select pid, state, query from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'
    and state is distinct from 'idle'
union all
select pid, mode, coalesce(relation::regclass::text, locktype) from pg_locks
where pid <> pg_backend_pid() and database = (select oid from pg_database where datname = current_database())
    and pid in (select pid from pg_stat_activity where backend_type = 'client backend')
"""


class PostgresProvisioningHarness(ProvisioningHarness):
    """What is the same, wherever the stores have their connections from; the observer is none of them."""

    def __init__(self, observer: psycopg.Connection[DictRow], url: str, *connections: Connections) -> None:
        self.store, self.other = map(PostgresProvisioningStore, connections)
        self.observer = observer
        self.left: list[dict[str, Any]] = []
        self.url = url

    @asynccontextmanager
    async def writing(self, *things: Thing) -> AsyncGenerator[None]:
        async with await AsyncConnection.connect(self.url) as connection:
            for thing in things:
                await _put(connection, thing)
            yield

    async def stored(self) -> Stored:
        members: dict[object, list[Member]] = {}
        for row in self._rows("deal_chat_provision_members", "provision_id, user_id"):
            members.setdefault(row.pop("provision_id"), []).append(Member(**row))
        return Stored(
            provisions=[
                _provision(row, members.get(row["id"], []))
                for row in self._rows("deal_chat_provisions", "id")
            ],
            chats=[Chat(**row) for row in self._rows("chats", "id")],
            participants=[Participant(**row) for row in self._rows("participants", "id")],
            feed=[ChatEvent(**row) for row in self._rows("chat_events", "id")],
            messages=[_message(row) for row in self._rows("outbox_messages", "id")],
        )

    async def until_blocked(self) -> None:
        await eventually(lambda: bool(self.observer.execute(BLOCKED.encode()).fetchall()))

    async def pass_lock_timeout(self) -> None:
        await eventually(lambda: not self.observer.execute(BLOCKED.encode()).fetchall())

    async def assert_nothing_left(self) -> None:
        await eventually(lambda: not self.observer.execute(LEFT_BEHIND.encode()).fetchall())

    def _rows(self, table: str, order: str) -> list[dict[str, Any]]:
        query = sql.SQL("select * from messenger.{} order by {}")
        columns = sql.SQL(", ").join(map(sql.Identifier, order.split(", ")))
        return self.observer.execute(query.format(sql.Identifier(table), columns)).fetchall()


class PooledHarness(PostgresProvisioningHarness):
    """Two pools, as two processes have them."""

    def __init__(self, observer: psycopg.Connection[DictRow], url: str, *pools: Pool) -> None:
        super().__init__(observer, url, *map(PooledConnections, pools))
        self.pools = pools

    async def assert_nothing_left(self) -> None:
        await super().assert_nothing_left()
        await eventually(lambda: all(map(_everything_given_back, self.pools)))


class HostsHarness(PostgresProvisioningHarness):
    """Two hosts, each with one open connection that has settings of its own."""

    def __init__(self, observer: psycopg.Connection[DictRow], url: str, *hosts: AsyncConnection[Any]) -> None:
        super().__init__(observer, url, *map(HostConnection, hosts))
        self.host, _ = hosts

    async def assert_nothing_left(self) -> None:
        await super().assert_nothing_left()
        if self.host.closed:  # by psycopg, at the second cancellation: the host connects again
            self.host = await a_hosts_connection(self.url)
            self.store = PostgresProvisioningStore(HostConnection(self.host))


@asynccontextmanager
async def pooled_harness(url: str) -> AsyncGenerator[PooledHarness]:
    limited = make_conninfo(url, options=LIMITS)
    with psycopg.Connection[DictRow].connect(url, autocommit=True, row_factory=dict_row) as observer:
        async with connection_pool(limited, size=3) as pool, connection_pool(limited, size=3) as other:
            yield PooledHarness(observer, limited, pool, other)


@asynccontextmanager
async def hosts_harness(url: str) -> AsyncGenerator[HostsHarness]:
    limited = make_conninfo(url, options=LIMITS)
    with psycopg.Connection[DictRow].connect(url, autocommit=True, row_factory=dict_row) as observer:
        async with await a_hosts_connection(limited) as other:
            harness = HostsHarness(observer, limited, await a_hosts_connection(limited), other)
            try:
                yield harness
            finally:
                await harness.host.close()


async def a_hosts_connection(url: str) -> AsyncConnection[Any]:
    """Not in autocommit mode, and with rows and cursors of another kind."""
    return await AsyncConnection[DictRow].connect(
        url, row_factory=dict_row, cursor_factory=AsyncRawCursor[DictRow]
    )


def _everything_given_back(pool: Pool) -> bool:
    stats = pool.get_stats()
    return stats["pool_available"] == stats["pool_size"] and not stats.get("requests_waiting")


def _provision(row: dict[str, Any], members: list[Member]) -> DealChatProvision:
    schedule = RetrySchedule(
        **{name: row.pop(name) for name in ("attempts", "next_attempt_at", "last_error")}
    )
    row["status"] = ProvisionStatus(row["status"])
    return DealChatProvision(**row, schedule=schedule, members=tuple(members))


def _message(row: dict[str, Any]) -> OutboxMessage:
    return OutboxMessage(**{name: row[name] for name in OutboxMessage.__annotations__})


async def _put(connection: AsyncConnection[Any], thing: Thing) -> None:
    match thing:
        case Chat():
            await _upsert(connection, "chats", ("id",), asdict(thing))
        case Participant():
            await _upsert(connection, "participants", ("id",), asdict(thing))
        case DealChatProvision():
            columns = asdict(thing, recurse=False)
            columns.pop("members")
            columns |= asdict(columns.pop("schedule")) | {"status": thing.status.value}
            await _upsert(connection, "deal_chat_provisions", ("id",), columns)
            for member in thing.members:
                row = {"provision_id": thing.id, **asdict(member)}
                await _upsert(connection, "deal_chat_provision_members", ("provision_id", "user_id"), row)


async def _upsert(
    connection: AsyncConnection[Any], table: str, key: tuple[str, ...], columns: dict[str, Any]
) -> None:
    query = sql.SQL("insert into messenger.{} ({}) values ({}) on conflict ({}) do update set {}").format(
        sql.Identifier(table),
        sql.SQL(", ").join(map(sql.Identifier, columns)),
        sql.SQL(", ").join(map(sql.Placeholder, columns)),
        sql.SQL(", ").join(map(sql.Identifier, key)),
        sql.SQL(", ").join(sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in columns),
    )
    await connection.execute(query, columns)
