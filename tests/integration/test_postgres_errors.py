"""What the real server, and the lack of one, come to as port errors."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import subprocess
from collections.abc import Callable
from typing import Any, LiteralString

import psycopg
import pytest
from messenger_jobs.adapters.local.postgres_programs import usable_programs
from messenger_jobs.adapters.local.postgres_server import PostgresServer
from messenger_jobs.adapters.postgres.bounded_connection import BoundedConnection
from messenger_jobs.adapters.postgres.connection_pool import PooledConnections, connection_pool
from messenger_jobs.adapters.postgres.errors import TranslatedErrors, port_error
from messenger_jobs.application.ports.errors import (
    ChatAlreadyExists,
    DatabaseUnavailable,
    DataRejected,
    Misconfigured,
    PortError,
    RowRolledBack,
)
from psycopg.conninfo import make_conninfo

from tests.support.full_disk import LOG, TABLES, FullDisk, panic_for_lack_of_room
from tests.support.postgres_proxy import through_proxy

SECONDS = 20


async def error_of(statement: LiteralString, url: str, *parameters: object, **given: Any) -> PortError:
    """What the statement raises through a pool; `given` are connection parameters."""
    async with (
        asyncio.timeout(SECONDS),
        connection_pool(make_conninfo(url, **given), size=1, checkout_timeout=0.5) as pool,
    ):
        with pytest.raises(PortError) as caught:
            await ask(PooledConnections(pool), statement, *parameters)
    return caught.value


async def error_with(sqlstate: str, url: str) -> PortError:
    """What the server's error with this SQLSTATE comes to."""
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute(
            "create function messenger.fail(code text) returns void language plpgsql"
            " as 'begin raise exception using errcode = code; end'"
        )
    return await error_of("select messenger.fail(%s)", url, sqlstate)


def run_as_the_server(server: PostgresServer, program: str, *arguments: str) -> None:
    """Run one of PostgreSQL's programs on the data of a server that is stopped."""
    programs = usable_programs(server.programs, copies=server.folder / "programs")
    owner = (server.folder / "data").owner() if os.geteuid() == 0 else None
    subprocess.run([programs / program, *arguments], user=owner, check=True, cwd=server.folder)


async def ask(connections: PooledConnections, statement: LiteralString, *parameters: object) -> None:
    async with connections.statement() as connection:
        with TranslatedErrors():
            await connection.execute(statement, parameters)


def assert_is(error: PortError, kind: type[PortError], code: str) -> None:
    assert (type(error), error.code) == (kind, code)


async def test_refused_password_is_a_misconfiguration(database_url: str) -> None:
    error = await error_of("select 1", database_url, password="wrong-secret")
    assert_is(error, Misconfigured, "28P01")
    assert "secret" not in str(error)


async def test_missing_account_is_a_misconfiguration(database_url: str) -> None:
    error = await error_of("select 1", database_url, user="nobody-of-this-name")
    assert_is(error, Misconfigured, "28P01")


async def test_missing_database_is_a_misconfiguration(database_url: str) -> None:
    assert_is(await error_of("select 1", database_url, dbname="no-such-database"), Misconfigured, "3D000")


async def test_missing_table_is_a_misconfiguration(empty_database_url: str) -> None:
    error = await error_of("select 1 from messenger.chats", empty_database_url)
    assert_is(error, Misconfigured, "42P01")


async def test_missing_schema_is_a_misconfiguration(empty_database_url: str) -> None:
    error = await error_of("create table messenger.t ()", empty_database_url)
    assert_is(error, Misconfigured, "3F000")


async def test_missing_permission_is_a_misconfiguration(database_url: str) -> None:
    error = await error_of("select 1 from messenger.chats", database_url, options="-c role=pg_monitor")
    assert_is(error, Misconfigured, "42501")


async def test_refused_connection_is_unavailability(unused_tcp_port: int) -> None:
    error = await error_of("select 1", f"postgresql://somebody:secret@127.0.0.1:{unused_tcp_port}/some")
    assert_is(error, DatabaseUnavailable, "CONNECTION_LOST")
    assert "secret" not in str(error)


async def test_server_out_of_connections_is_unavailability(own_postgres_server: PostgresServer) -> None:
    own_postgres_server.settings = {"max_connections": "3", "superuser_reserved_connections": "0"}
    own_postgres_server.restart()
    url = own_postgres_server.url()
    with psycopg.connect(url), psycopg.connect(url), psycopg.connect(url):
        error = await error_of("select 1", url)
    assert_is(error, DatabaseUnavailable, "53300")
    assert "no connection left" in str(error)


async def test_exhausted_pool_is_unavailability(database_url: str) -> None:
    async with connection_pool(database_url, size=1, checkout_timeout=0.1) as pool:
        connections = PooledConnections(pool)
        async with connections.statement():
            with pytest.raises(DatabaseUnavailable) as caught:
                await ask(connections, "select 1")
    assert caught.value.code == "NO_CONNECTION"


async def test_closed_pool_is_unavailability(database_url: str) -> None:
    async with connection_pool(database_url, size=1) as pool:
        pass
    with pytest.raises(DatabaseUnavailable):
        await ask(PooledConnections(pool), "select 1")


async def test_ended_session_is_unavailability(database_url: str) -> None:
    error = await error_of("select pg_terminate_backend(pg_backend_pid())", database_url)
    assert_is(error, DatabaseUnavailable, "57P01")


async def test_session_ended_between_statements_is_unavailability(database_url: str) -> None:
    async with (
        connection_pool(database_url, size=1) as pool,
        PooledConnections(pool).statement() as connection,
    ):
        with psycopg.connect(database_url, autocommit=True) as operator:
            operator.execute("select pg_terminate_backend(%s)", [connection.info.backend_pid])
        with pytest.raises(DatabaseUnavailable), TranslatedErrors():
            await connection.execute("select 1")


async def test_silent_server_is_unavailability(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BoundedConnection, "answer_timeout", 0.2)
    async with through_proxy(database_url) as (proxy, url), connection_pool(url, size=1) as pool:
        connections = PooledConnections(pool)
        await ask(connections, "select 1")
        proxy.stall()
        async with asyncio.timeout(SECONDS):
            with pytest.raises(DatabaseUnavailable) as caught:
                await ask(connections, "select 1")
        proxy.resume()
    assert caught.value.code == "NO_ANSWER"


async def test_read_only_server_is_unavailability(database_url: str) -> None:
    error = await error_of(
        "delete from messenger.chats", database_url, options="-c default_transaction_read_only=on"
    )
    assert_is(error, DatabaseUnavailable, "25006")


async def test_connection_to_a_server_that_became_read_only_is_not_used_again(database_url: str) -> None:
    async with connection_pool(database_url, size=1) as pool:
        connections = PooledConnections(pool)
        async with connections.statement() as connection:
            await connection.execute("set default_transaction_read_only = on")
        with pytest.raises(DatabaseUnavailable):
            await ask(connections, "delete from messenger.chats")

        await ask(connections, "delete from messenger.chats")


async def test_full_disk_is_unavailability(roomless_postgres: PostgresServer, full_disk: FullDisk) -> None:
    with psycopg.connect(roomless_postgres.url(), autocommit=True) as owner:
        owner.execute("create table filled (number int)")
    with full_disk.full(TABLES):
        error = await error_of("insert into filled values (1)", roomless_postgres.url())
    assert_is(error, DatabaseUnavailable, "53100")
    assert str(error) == "the database's disk is full (SQLSTATE 53100)"


async def test_servers_log_without_room_is_unavailability(
    roomless_postgres: PostgresServer, full_disk: FullDisk
) -> None:
    roomless_postgres.settings = {**roomless_postgres.settings, "wal_recycle": "off"}
    roomless_postgres.restart()
    async with connection_pool(roomless_postgres.url(), size=1) as pool:
        connections = PooledConnections(pool)
        await ask(connections, "select 1")
        with full_disk.full(LOG):
            with psycopg.connect(roomless_postgres.url()) as operator:
                panic_for_lack_of_room(roomless_postgres)
                with pytest.raises(psycopg.OperationalError) as panic:
                    operator.execute("select 1")
            assert isinstance(port_error(panic.value), DatabaseUnavailable)
            with pytest.raises(DatabaseUnavailable):
                await ask(connections, "select 1")
        roomless_postgres.start()
        await ask(connections, "select 1")


async def test_server_without_transaction_ids_is_unavailability(
    own_postgres_server: PostgresServer,
) -> None:
    # The SQLSTATE is that of a value that is too large for an index as well, and that is one row's fault.
    used_up = 3 + 2**31 - 2_000_000
    own_postgres_server.stop()
    data = own_postgres_server.folder / "data"
    run_as_the_server(own_postgres_server, "pg_resetwal", f"--next-transaction-id={used_up}", f"{data}")
    segment = data / "pg_xact" / f"{used_up // 2**20:04X}"
    segment.write_bytes(bytes(2**18))
    shutil.chown(segment, data.owner(), data.group())
    own_postgres_server.start()

    error = await error_of("create table one_more ()", own_postgres_server.url())

    assert_is(error, DatabaseUnavailable, "54000")
    assert "vacuumed" in str(error)


async def test_value_too_large_for_an_index_rolls_the_row_back(database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as owner:
        owner.execute("create table messenger.indexed (text text unique)")
    noise = "".join(random.Random(1).choices("0123456789abcdef", k=20_000))  # does not shrink when compressed
    error = await error_of("insert into messenger.indexed values (%s)", database_url, noise)
    assert_is(error, RowRolledBack, "54000")


OF_THE_WHOLE_DATABASE = (
    *("08006", "25006", "25P03"),
    *("53000", "53100", "53200", "53300", "53400"),
    *("57P01", "57P02", "57P03", "57P05"),
)
OF_ONE_TRANSACTION = (
    *("40001", "40003", "40P01", "55P03", "57014"),
    *("54000", "54001", "54011", "54023"),
    *("25P04", "58030", "XX000", "XX001", "P0001"),
)


@pytest.mark.parametrize("code", OF_THE_WHOLE_DATABASE)
async def test_outage_of_the_whole_database_is_told_from_a_rows_fault(code: str, database_url: str) -> None:
    assert_is(await error_with(code, database_url), DatabaseUnavailable, code)


@pytest.mark.parametrize("code", OF_ONE_TRANSACTION)
async def test_failure_of_one_transaction_is_told_from_an_outage(code: str, database_url: str) -> None:
    assert_is(await error_with(code, database_url), RowRolledBack, code)


async def test_lock_that_takes_too_long_rolls_the_row_back(database_url: str) -> None:
    with psycopg.connect(database_url) as other:
        other.execute("lock table messenger.chats")
        error = await error_of("delete from messenger.chats", database_url, options="-c lock_timeout=50")
    assert_is(error, RowRolledBack, "55P03")


async def test_statement_that_takes_too_long_rolls_the_row_back(database_url: str) -> None:
    error = await error_of("select pg_sleep(60)", database_url, options="-c statement_timeout=50")
    assert_is(error, RowRolledBack, "57014")


async def test_deadlock_rolls_the_row_back(database_url: str) -> None:
    url = make_conninfo(database_url, options="-c deadlock_timeout=50")

    async def lock_both(first: int, second: int, both_hold_one: asyncio.Barrier) -> None:
        async with PooledConnections(pool).transaction() as transaction:
            with TranslatedErrors():
                await transaction.connection.execute("select pg_advisory_xact_lock(%s)", [first])
                await both_hold_one.wait()
                await transaction.connection.execute("select pg_advisory_xact_lock(%s)", [second])

    async with connection_pool(url, size=2) as pool:
        barrier = asyncio.Barrier(2)
        outcomes = await asyncio.gather(
            lock_both(1, 2, barrier), lock_both(2, 1, barrier), return_exceptions=True
        )
    (error,) = (outcome for outcome in outcomes if outcome is not None)
    assert isinstance(error, PortError)
    assert_is(error, RowRolledBack, "40P01")


async def test_serialization_failure_rolls_the_row_back(database_url: str) -> None:
    url = make_conninfo(database_url, options="-c default_transaction_isolation=serializable")
    statement = "update messenger.serials set n = n + 1"
    with psycopg.connect(database_url, autocommit=True) as owner:
        owner.execute("create table messenger.serials as select 0 as n")
        async with connection_pool(url, size=1) as pool, PooledConnections(pool).transaction() as transaction:
            await transaction.connection.execute("select * from messenger.serials")
            owner.execute(statement)
            with pytest.raises(RowRolledBack) as caught, TranslatedErrors():
                await transaction.connection.execute(statement)
    assert caught.value.code == "40001"


INSERT_CHAT: LiteralString = (
    "insert into messenger.chats (id, kind, status, deal_id, title, created_at, updated_at)"
    " values (gen_random_uuid(), 'Deal', 'Active', '00000000-0000-0000-0000-000000000001', %s, now(), now())"
)


async def test_second_chat_of_a_deal_is_told_from_other_duplicates(database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as other:
        other.execute(INSERT_CHAT, ["Flat 12"])
    assert_is(await error_of(INSERT_CHAT, database_url, "Flat 12"), ChatAlreadyExists, "ux_chats_deal_id")


REFUSED_DATA: dict[str, tuple[str, Callable[[], object]]] = {
    "too long": ("22001", lambda: "x" * 257),
    "against a check": ("23514", lambda: ""),
    "missing": ("23502", lambda: None),
    "a NUL character": ("22000", lambda: "Flat\0 12"),
    "a lone surrogate": ("22021", lambda: "Flat \ud800 12"),
}


@pytest.mark.parametrize(("code", "title"), REFUSED_DATA.values(), ids=REFUSED_DATA.keys())
async def test_refused_data_is_rejected_without_being_quoted(
    code: str, title: Callable[[], object], database_url: str
) -> None:
    error = await error_of(INSERT_CHAT, database_url, title())
    assert_is(error, DataRejected, code)
    assert error.__suppress_context__  # the driver's message quotes the row
    assert "Flat" not in str(error)


async def test_defect_of_ours_is_seen_as_it_is(database_url: str) -> None:
    async with connection_pool(database_url, size=1) as pool:
        with pytest.raises(psycopg.ProgrammingError, match="placeholder"):
            await ask(PooledConnections(pool), "select %s", 1, 2)
