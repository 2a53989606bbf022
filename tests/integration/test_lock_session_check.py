"""Telling a connection on which a session lock holds from one on which it is an illusion."""

from __future__ import annotations

import asyncio
import socket

import psycopg
import pytest
from messenger_jobs.adapters.postgres.lock_session_check import LockSessionCheck
from messenger_jobs.application.ports.check import CheckedItem, Verdict

from tests.support.eventually import eventually_here
from tests.support.missing_server import missing_server
from tests.support.pgbouncer import MISSING, PoolMode, pgbouncer, pgbouncer_program

ADVISORY_LOCKS = (
    "select from pg_locks where locktype = 'advisory'"
    " and database = (select oid from pg_database where datname = current_database())"
)


@pytest.fixture
def needs_pgbouncer() -> None:
    if pgbouncer_program() is None:
        missing_server(MISSING)


def checked(url: str) -> CheckedItem:
    (item,) = asyncio.run(LockSessionCheck(lock_url=url, setting="SETTING", remedy="REMEDY")())
    return item


def locks_left(database_url: str) -> bool:
    with psycopg.connect(database_url) as connection:
        return bool(connection.execute(ADVISORY_LOCKS).fetchall())


def test_server_itself_keeps_a_lock_with_its_session(database_url: str) -> None:
    item = checked(database_url)

    assert (item.verdict, item.code) == (Verdict.OK, None)
    eventually_here(lambda: not locks_left(database_url))


@pytest.mark.usefixtures("needs_pgbouncer")
@pytest.mark.parametrize("pool_size", [1, 2, 5])
@pytest.mark.parametrize("mode", ["transaction", "statement"])
def test_proxy_that_pools_transactions_is_found_out(
    database_url: str, mode: PoolMode, pool_size: int
) -> None:
    with pgbouncer(database_url, mode, pool_size=pool_size) as url:
        item = checked(url)

        assert (item.verdict, item.code) == (Verdict.FAILED, "LOCK_BEHIND_POOLER")
        assert item.sentence.startswith("SETTING: the connection changes its session between statements")
        assert not locks_left(database_url), "the proxy's session would keep it"


@pytest.mark.usefixtures("needs_pgbouncer")
def test_proxy_that_pools_whole_sessions_is_as_good_as_none(database_url: str) -> None:
    with pgbouncer(database_url, "session") as url:
        item = checked(url)

    assert (item.verdict, item.code) == (Verdict.OK, None)


def test_server_that_is_not_there_is_told(database_url: str) -> None:
    del database_url
    with socket.socket() as taken:  # bound and not listening
        taken.bind(("127.0.0.1", 0))

        item = checked(f"postgresql://worker:s3cr3t@127.0.0.1:{taken.getsockname()[1]}/messenger")

    assert (item.verdict, item.code) == (Verdict.FAILED, "CONNECTION_LOST")
    assert item.sentence == "SETTING: the connection to the database failed"
