"""A host's transaction that may not have begun yet when its connection is lent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import psycopg
import pytest
from messenger_jobs.adapters.postgres.connections import Connections
from messenger_jobs.adapters.postgres.host_connection import HostTransaction
from psycopg import AsyncConnection
from psycopg.pq import TransactionStatus
from psycopg.rows import scalar_row


@pytest.fixture
async def host(database_url: str) -> AsyncGenerator[AsyncConnection[Any]]:
    """Not in autocommit mode, and with rows that a statement without columns cannot make."""
    async with await AsyncConnection[Any].connect(database_url, row_factory=scalar_row) as connection:
        await connection.execute("create table numbers (n int primary key)")
        await connection.commit()
        yield connection


async def insert(connections: Connections, number: int) -> None:
    async with connections.statement() as connection:
        await connection.execute("insert into numbers values (%s)", [number])


async def insert_in_a_unit(connections: Connections, number: int) -> None:
    async with connections.transaction() as transaction:
        await transaction.connection.execute("insert into numbers values (%s)", [number])
        await transaction.commit()


async def committed(url: str) -> list[int]:
    async with await AsyncConnection.connect(url) as connection:
        cursor = await connection.execute("select n from numbers order by n")
        return [number for (number,) in await cursor.fetchall()]


async def test_lent_before_its_first_statement_nothing_is_there_before_the_hosts_commit(
    database_url: str, host: AsyncConnection[Any]
) -> None:
    connections = HostTransaction(host)
    await insert(connections, 1)
    await insert_in_a_unit(connections, 2)
    assert await committed(database_url) == []
    await host.commit()
    assert await committed(database_url) == [1, 2]


async def test_lent_before_its_first_statement_nothing_is_there_after_the_hosts_rollback(
    database_url: str, host: AsyncConnection[Any]
) -> None:
    connections = HostTransaction(host)
    await insert_in_a_unit(connections, 1)
    await insert(connections, 2)
    await host.rollback()
    assert await committed(database_url) == []
    assert host.info.transaction_status == TransactionStatus.IDLE


async def test_what_is_not_committed_in_a_unit_is_undone_alone(
    database_url: str, host: AsyncConnection[Any]
) -> None:
    connections = HostTransaction(host)
    async with connections.transaction() as not_committed:
        await not_committed.connection.execute("insert into numbers values (1)")
    with pytest.raises(psycopg.errors.UniqueViolation):
        await asyncio.gather(insert(connections, 2), insert_in_a_unit(connections, 2))
    await host.commit()
    assert await committed(database_url) == [2]


async def test_autocommit_mode_has_room_only_for_an_open_transaction(
    database_url: str, host: AsyncConnection[Any]
) -> None:
    await host.set_autocommit(True)
    connections = HostTransaction(host)
    with pytest.raises(RuntimeError, match="autocommit"):
        await insert(connections, 1)
    async with host.transaction():
        await insert(connections, 2)
        assert await committed(database_url) == []
    assert await committed(database_url) == [2]
