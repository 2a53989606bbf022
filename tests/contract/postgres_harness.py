"""The PostgreSQL adapter's harness."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from attrs import asdict
from messenger_jobs.adapters.postgres.connections import Connections
from messenger_jobs.adapters.postgres.provisioning_store import PostgresProvisioningStore
from messenger_jobs.application.ports.outbox import OutboxMessage
from messenger_jobs.domain.chat import Chat, ChatEvent, Member, Participant
from messenger_jobs.domain.deal_chat_provision import DealChatProvision, ProvisionStatus
from messenger_jobs.domain.retry_schedule import RetrySchedule
from psycopg import AsyncConnection, sql

from tests.contract.postgres_users import PostgresUsers, TwoHosts, TwoPools, on_two_hosts, on_two_pools
from tests.contract.provisioning_harness import ProvisioningHarness, Stored, Thing


class PostgresProvisioningHarness(PostgresUsers, ProvisioningHarness):
    """On tables as the migrations make them."""

    def lend(self, *connections: Connections) -> None:
        self.store, self.other = map(PostgresProvisioningStore, connections)

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

    def _rows(self, table: str, order: str) -> list[dict[str, Any]]:
        query = sql.SQL("select * from messenger.{} order by {}")
        columns = sql.SQL(", ").join(map(sql.Identifier, order.split(", ")))
        return self.observer.execute(query.format(sql.Identifier(table), columns)).fetchall()


class PooledHarness(TwoPools, PostgresProvisioningHarness):
    """See both."""


class HostsHarness(TwoHosts, PostgresProvisioningHarness):
    """See both."""


def pooled_harness(url: str) -> AbstractAsyncContextManager[PooledHarness]:
    return on_two_pools(PooledHarness, url)


def hosts_harness(url: str) -> AbstractAsyncContextManager[HostsHarness]:
    return on_two_hosts(HostsHarness, url)


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
