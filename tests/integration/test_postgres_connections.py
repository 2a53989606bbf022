"""Connections that die, hang, or belong to somebody else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import Any

import psycopg
import pytest
from attrs import frozen
from messenger_jobs.adapters.local.postgres_server import PostgresServer
from messenger_jobs.adapters.postgres.bounded_connection import BoundedConnection
from messenger_jobs.adapters.postgres.connection_pool import Pool, PooledConnections, connection_pool
from messenger_jobs.adapters.postgres.connections import Connections
from messenger_jobs.adapters.postgres.errors import TranslatedErrors
from messenger_jobs.adapters.postgres.host_connection import HostConnection
from messenger_jobs.application.ports.errors import DatabaseUnavailable, RowRolledBack
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from tests.support.eventually import eventually
from tests.support.interruption import Moment, interrupt
from tests.support.postgres_proxy import through_proxy

SECONDS = 20


async def insert(connections: Connections, number: int) -> None:
    async with connections.statement() as connection:
        with TranslatedErrors():
            await connection.execute("insert into public.numbers values (%s)", [number])


async def insert_in_a_unit(connections: Connections, *numbers: int) -> None:
    async with connections.transaction() as transaction:
        for number in numbers:
            await transaction.connection.execute("insert into public.numbers values (%s)", [number])
        await transaction.commit()


@pytest.fixture
def numbers(database_url: str) -> Numbers:
    return Numbers.create(database_url)


@frozen
class Numbers:
    """A table of different numbers, none below zero, and what is committed in it."""

    url: str

    @classmethod
    def create(cls, url: str) -> Numbers:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("create table public.numbers (n int primary key check (n >= 0))")
        return cls(url)

    def committed(self) -> list[int]:
        with psycopg.connect(self.url) as connection:
            return [n for (n,) in connection.execute("select n from public.numbers order by n")]


async def occupy(connections: Connections, count: int) -> None:
    """Have the pool make this many connections."""
    async with AsyncExitStack() as stack:
        for _ in range(count):
            await stack.enter_async_context(connections.statement())


def is_waiting(pool: Pool, task: asyncio.Task[bool]) -> bool:
    """Or has given up already."""
    return task.done() or bool(pool.get_stats().get("requests_waiting"))


async def fail_after(connections: Connections, *numbers: int) -> None:
    async with connections.statement() as connection:
        for number in numbers:
            await connection.execute("insert into public.numbers values (%s)", [number])
        raise ZeroDivisionError


# The pool


async def test_restarted_server_is_not_noticed_by_the_next_one_to_ask(
    own_postgres_server: PostgresServer,
) -> None:
    numbers = Numbers.create(own_postgres_server.url())
    async with connection_pool(numbers.url, size=4) as pool:
        connections = PooledConnections(pool)
        await occupy(connections, 4)
        await asyncio.to_thread(own_postgres_server.restart)
        for number in range(4):
            await insert(connections, number)
    assert numbers.committed() == [0, 1, 2, 3]


async def test_server_that_was_away_for_long_is_found_as_soon_as_it_is_back(
    own_postgres_server: PostgresServer,
) -> None:
    numbers = Numbers.create(own_postgres_server.url())
    async with connection_pool(numbers.url, size=4, checkout_timeout=0.3) as pool:
        connections = PooledConnections(pool)
        await occupy(connections, 4)
        await asyncio.to_thread(own_postgres_server.stop)
        for _ in range(6):  # beyond every attempt of the pool's own to connect again
            with pytest.raises(DatabaseUnavailable):
                await insert(connections, 0)
        await asyncio.to_thread(own_postgres_server.start)
        await insert(connections, 1)
        await occupy(connections, 4)
    assert numbers.committed() == [1]


async def test_pool_can_be_opened_before_the_server_is_up(own_postgres_server: PostgresServer) -> None:
    numbers = Numbers.create(own_postgres_server.url())
    await asyncio.to_thread(own_postgres_server.stop)
    async with connection_pool(numbers.url, size=1, checkout_timeout=0.3) as pool:
        connections = PooledConnections(pool)
        with pytest.raises(DatabaseUnavailable):
            await insert(connections, 0)
        await asyncio.to_thread(own_postgres_server.start)
        await insert(connections, 1)
    assert numbers.committed() == [1]


async def test_silent_server_ends_a_transaction_in_bounded_time(
    numbers: Numbers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BoundedConnection, "answer_timeout", 0.2)
    async with through_proxy(numbers.url) as (proxy, url), connection_pool(url, size=2) as pool:
        connections = PooledConnections(pool)
        await occupy(connections, 2)
        proxy.stall("to_client")
        with pytest.raises(DatabaseUnavailable) as no_begin:
            await asyncio.wait_for(insert_in_a_unit(connections, 1), SECONDS)
        proxy.resume()
        lost = proxy.lose_answer(to=b"COMMIT", then="silence")
        with pytest.raises(DatabaseUnavailable) as no_commit:
            await asyncio.wait_for(insert_in_a_unit(connections, 2), SECONDS)
        await lost.answered.wait()
        await insert(connections, 3)
    assert no_begin.value.code == no_commit.value.code == "NO_ANSWER"
    assert numbers.committed() == [2, 3]  # the answer was lost, not the commit


async def test_failed_transaction_cannot_be_committed(numbers: Numbers) -> None:
    """The server answers such a commit with a rollback, and no error."""
    async with (
        connection_pool(numbers.url, size=1) as pool,
        PooledConnections(pool).transaction() as transaction,
    ):
        await transaction.connection.execute("insert into public.numbers values (1)")
        with pytest.raises(psycopg.errors.CheckViolation):
            await transaction.connection.execute("insert into public.numbers values (-1)")
        with pytest.raises(RowRolledBack):
            await transaction.commit()
    assert numbers.committed() == []


@pytest.mark.parametrize("moment", ["before the answer", "after the answer", "twice"])
async def test_cancelled_while_waiting_for_a_connection_none_is_lost(
    numbers: Numbers, moment: Moment
) -> None:
    async with connection_pool(numbers.url, size=1) as pool:
        connections = PooledConnections(pool)
        at = 1
        while True:
            async with connections.statement():
                waiting = asyncio.create_task(interrupt(insert(connections, at), at=at, moment=moment))
                await eventually(partial(is_waiting, pool, waiting))
            if not await waiting:
                break
            await occupy(connections, 1)
            at += 1
    assert at > 2


# A share of the pool


async def test_no_more_connections_are_in_use_than_the_share_and_all_get_their_turn(
    numbers: Numbers,
) -> None:
    async with connection_pool(numbers.url, size=4) as pool:
        connections, in_use, most = PooledConnections(pool, share=2), 0, 0

        async def insert_slowly(number: int) -> None:
            nonlocal in_use, most
            async with connections.statement() as connection:
                in_use += 1
                most = max(most, in_use)
                await connection.execute("insert into public.numbers values (%s)", [number])
                in_use -= 1

        await occupy(connections, 2)
        before = pool.get_stats()["requests_num"]
        await asyncio.gather(*map(insert_slowly, range(20)))
        assert most == 2
        # Handed from one to the next: the pool was asked for as many as were in use at once.
        assert pool.get_stats()["requests_num"] == before + 2
    assert numbers.committed() == [*range(20)]


async def test_connection_that_died_in_use_is_not_handed_on(numbers: Numbers) -> None:
    async with connection_pool(numbers.url, size=1) as pool:
        connections = PooledConnections(pool, share=1)
        async with connections.statement() as connection:
            waiting = [asyncio.create_task(insert(connections, number)) for number in range(3)]
            await asyncio.sleep(0)
            with suppress(psycopg.OperationalError):
                await connection.execute("select pg_terminate_backend(pg_backend_pid())")
        await asyncio.wait_for(asyncio.gather(*waiting), SECONDS)
    assert numbers.committed() == [0, 1, 2]


async def test_failure_to_connect_lets_the_next_in_line_try(own_postgres_server: PostgresServer) -> None:
    numbers = Numbers.create(own_postgres_server.url())
    async with connection_pool(numbers.url, size=1, checkout_timeout=0.3) as pool:
        connections = PooledConnections(pool, share=1)
        await asyncio.to_thread(own_postgres_server.stop)
        failed = await asyncio.gather(*[insert(connections, 0) for _ in range(3)], return_exceptions=True)
        assert [type(each) for each in failed] == [DatabaseUnavailable] * 3
        await asyncio.to_thread(own_postgres_server.start)
        await insert(connections, 1)
    assert numbers.committed() == [1]


@pytest.mark.parametrize("moment", ["before the answer", "after the answer", "twice"])
async def test_cancelled_in_line_or_in_its_turn_the_next_one_gets_it(
    numbers: Numbers, moment: Moment
) -> None:
    async with connection_pool(numbers.url, size=1) as pool:
        connections = PooledConnections(pool, share=1)
        at = 1
        while True:
            async with connections.statement():
                waiting = asyncio.create_task(interrupt(insert(connections, 2 * at), at=at, moment=moment))
                behind = asyncio.create_task(insert(connections, 2 * at + 1))
                for _ in range(3):
                    await asyncio.sleep(0)
            interrupted = await waiting
            await asyncio.wait_for(behind, SECONDS)
            if not interrupted:
                break
            at += 1
    assert at > 2
    assert [n for n in numbers.committed() if n % 2] == [2 * n + 1 for n in range(1, at + 1)]


async def test_cancelled_at_the_moment_of_its_turn_the_next_one_gets_the_connection(numbers: Numbers) -> None:
    async with connection_pool(numbers.url, size=1) as pool:
        connections = PooledConnections(pool, share=1)
        async with AsyncExitStack() as turn:
            await turn.enter_async_context(connections.statement())
            waiting = asyncio.create_task(insert(connections, 1))
            behind = asyncio.create_task(insert(connections, 2))
            await asyncio.sleep(0)
            await turn.aclose()
            waiting.cancel()  # has its turn, and does not know it yet
        await asyncio.wait_for(behind, SECONDS)
        assert waiting.cancelled()
        assert pool.get_stats()["requests_num"] == 1
    assert numbers.committed() == [2]


async def test_connection_in_a_state_of_its_own_is_not_used_again(numbers: Numbers) -> None:
    async with connection_pool(numbers.url, size=1) as pool:
        connections = PooledConnections(pool)
        async with connections.statement() as connection:
            session = connection.info.backend_pid
            await connection.execute("begin")
            await connection.execute("insert into public.numbers values (1)")
        async with connections.statement() as connection:
            assert connection.info.backend_pid != session
    assert numbers.committed() == []


async def test_hosts_pool_with_settings_of_its_own_serves_as_well(numbers: Numbers) -> None:
    async with AsyncConnectionPool(numbers.url, min_size=1, open=False) as pool:
        connections = PooledConnections(pool)
        await insert(connections, 1)
        with pytest.raises(ZeroDivisionError):
            await fail_after(connections, 2)
        await insert_in_a_unit(connections, 3)
    assert numbers.committed() == [1, 3]


async def test_limits_hold_unless_the_address_says_otherwise(database_url: str) -> None:
    async def setting(pool: Pool, name: str) -> str:
        async with PooledConnections(pool).statement() as connection:
            row = await (await connection.execute("select current_setting(%s)", [name])).fetchone()
        assert row is not None
        return str(row[0])

    async with connection_pool(f"{database_url}?options=-c%20lock_timeout%3D1s", size=1) as pool:
        assert await setting(pool, "statement_timeout") == "10s"
        assert await setting(pool, "lock_timeout") == "1s"
        assert await setting(pool, "idle_in_transaction_session_timeout") == "30s"
        assert await setting(pool, "application_name") == "messenger-jobs"
        assert await setting(pool, "TimeZone") == "UTC"


# A host's own connection


@pytest.fixture(params=[True, False], ids=["autocommit", "no autocommit"])
async def host(numbers: Numbers, request: pytest.FixtureRequest) -> AsyncGenerator[AsyncConnection[Any]]:
    async with await AsyncConnection.connect(numbers.url, autocommit=request.param) as connection:
        yield connection


async def test_without_a_hosts_transaction_everything_is_committed_by_itself(
    numbers: Numbers, host: AsyncConnection[Any]
) -> None:
    connections = HostConnection(host)
    await insert(connections, 1)
    assert numbers.committed() == [1]
    await insert_in_a_unit(connections, 2, 3)
    assert numbers.committed() == [1, 2, 3]
    assert host.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


async def test_in_a_hosts_transaction_nothing_is_there_before_the_hosts_commit(
    numbers: Numbers, host: AsyncConnection[Any]
) -> None:
    connections = HostConnection(host)
    async with host.transaction():
        await host.execute("insert into public.numbers values (1)")
        await insert(connections, 2)
        await insert_in_a_unit(connections, 3, 4)
        assert numbers.committed() == []
    assert numbers.committed() == [1, 2, 3, 4]


async def test_in_a_hosts_transaction_nothing_is_there_after_the_hosts_rollback(
    numbers: Numbers, host: AsyncConnection[Any]
) -> None:
    connections = HostConnection(host)
    async with host.transaction(force_rollback=True):
        await insert(connections, 1)
        await insert_in_a_unit(connections, 2, 3)
    assert numbers.committed() == []


async def test_in_a_hosts_transaction_a_failure_undoes_our_part_only(
    numbers: Numbers, host: AsyncConnection[Any]
) -> None:
    connections = HostConnection(host)
    async with host.transaction():
        await host.execute("insert into public.numbers values (1)")
        with pytest.raises(psycopg.errors.CheckViolation):
            await insert_in_a_unit(connections, 2, -1)
        async with connections.transaction() as not_committed:
            await not_committed.connection.execute("insert into public.numbers values (3)")
        await insert(connections, 4)
    assert numbers.committed() == [1, 4]


async def test_a_hosts_failed_transaction_is_not_ours_to_use(
    numbers: Numbers, host: AsyncConnection[Any]
) -> None:
    await host.set_autocommit(False)
    with pytest.raises(psycopg.errors.CheckViolation):
        await host.execute("insert into public.numbers values (-1)")
    with pytest.raises(RowRolledBack):
        await insert(HostConnection(host), 1)
    await host.rollback()
    assert numbers.committed() == []


async def test_several_at_once_take_turns_on_a_hosts_connection(
    numbers: Numbers, host: AsyncConnection[Any]
) -> None:
    connections = HostConnection(host)
    async with asyncio.timeout(SECONDS):
        await asyncio.gather(*(insert_in_a_unit(connections, number, number + 100) for number in range(10)))
    assert len(numbers.committed()) == 20


@pytest.mark.parametrize("moment", ["before the answer", "after the answer"])
async def test_cancelled_anywhere_in_a_hosts_transaction_our_part_is_whole_or_undone(
    numbers: Numbers, host: AsyncConnection[Any], moment: Moment
) -> None:
    connections = HostConnection(host)
    at, reached = 1, True
    while reached:
        ours = {at, at + 100}
        async with host.transaction():
            await host.execute("insert into public.numbers values (%s)", [at + 1000])
            reached = await interrupt(insert_in_a_unit(connections, *ours), at=at, moment=moment)
        committed = set(numbers.committed())
        assert at + 1000 in committed
        assert ours & committed in (set(), ours)
        at += 1
    assert at > 4


async def test_rollback_that_does_not_come_through_closes_the_hosts_connection(
    numbers: Numbers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the host's commit could keep the half of our part."""
    monkeypatch.setattr("messenger_jobs.adapters.postgres.connections.CLEANUP_TIMEOUT", 0.1)
    async with through_proxy(numbers.url) as (proxy, url):
        host = await AsyncConnection.connect(url)
        await host.execute("insert into public.numbers values (1)")
        async with HostConnection(host).transaction() as transaction:
            await transaction.connection.execute("insert into public.numbers values (2)")
            proxy.stall("to_client")
            asyncio.get_running_loop().call_later(0.3, proxy.resume)
        assert host.closed
    assert numbers.committed() == []
