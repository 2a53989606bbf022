"""What only the real server shows of run locks."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Generator
from datetime import timedelta

import psycopg
import pytest
from messenger_jobs.adapters.postgres import run_lock
from messenger_jobs.adapters.postgres.run_lock import PostgresRunLocks, lock_key
from messenger_jobs.adapters.system.clock import SystemClock
from messenger_jobs.application.ports.errors import DatabaseUnavailable, Misconfigured

from tests.support.eventually import eventually
from tests.support.interruption import interrupt
from tests.support.postgres_proxy import through_proxy

JOB = "chat-provision-retry"
SESSION = f"messenger-jobs lock {JOB}"
SECONDS = 20


def locks_on(url: str, *, ttl: timedelta = timedelta(minutes=5)) -> PostgresRunLocks:
    return PostgresRunLocks(database_url=url, ttl=ttl, clock=SystemClock())


def sessions(url: str) -> list[int]:
    """Process ids of the lock's sessions on the server."""
    with psycopg.connect(url, autocommit=True) as observer:
        found = observer.execute(
            "select pid from pg_stat_activity where application_name = %s and datname = current_database()",
            [SESSION],
        )
        return [pid for (pid,) in found]


def is_free(url: str) -> bool:
    with psycopg.connect(url) as observer:
        row = observer.execute("select pg_try_advisory_xact_lock(%s)", [lock_key(JOB)]).fetchone()
    assert row is not None
    return bool(row[0])


async def until_free(url: str) -> None:
    """Returns once nobody holds the lock and none of its sessions is left; fails when that takes long."""
    await eventually(lambda: not sessions(url) and is_free(url))


def test_keys_of_jobs_are_documented_and_distinct() -> None:
    names = ("chat-provision-retry", "recording-finalize-retry", "outbox-relay", "deal-created", "migrate")
    assert len({lock_key(name) for name in names}) == len(names)
    # SHA-256 of "messenger-jobs:chat-provision-retry", its first 8 bytes as a signed number
    assert lock_key("chat-provision-retry") == -3182037426310523843


async def test_holder_is_visible_by_name(database_url: str) -> None:
    async with locks_on(database_url).try_acquire(JOB) as lease:
        assert lease is not None
        assert len(sessions(database_url)) == 1
        assert not is_free(database_url)


async def test_nothing_is_left_after_release(database_url: str) -> None:
    async with locks_on(database_url).try_acquire(JOB):
        pass
    assert is_free(database_url)
    await until_free(database_url)


async def test_a_loser_leaves_no_session(database_url: str) -> None:
    locks = locks_on(database_url)
    async with locks.try_acquire(JOB):
        async with locks.try_acquire(JOB) as second:
            assert second is None
        await eventually(lambda: len(sessions(database_url)) == 1)


KEY = lock_key(JOB)
LOW, HIGH = (half - (half >> 31 << 32) for half in (KEY & 0xFFFFFFFF, KEY >> 32 & 0xFFFFFFFF))


@pytest.mark.parametrize(
    "other_key",
    [[KEY + 1], [KEY ^ 1 << 40], [HIGH, LOW]],
    ids=["other low half", "other high half", "two keys"],
)
async def test_session_that_lost_the_lock_is_not_the_holder_whatever_else_it_holds(
    database_url: str, other_key: list[int]
) -> None:
    """As behind a pooler that hands the session to somebody else, who resets it."""
    locks = locks_on(database_url)
    async with locks.try_acquire(JOB) as lease:
        assert lease is not None
        await lease._connection.execute("select pg_advisory_unlock_all()")
        query = "select pg_advisory_lock(%s)" if len(other_key) == 1 else "select pg_advisory_lock(%s, %s)"
        await lease._connection.execute(query, other_key)
        async with locks.try_acquire(JOB) as other:
            assert other is not None
            assert not await lease.confirm()


async def test_lock_is_free_before_the_server_learns_that_the_connection_is_closed(database_url: str) -> None:
    async with through_proxy(database_url) as (proxy, url):
        async with locks_on(url).try_acquire(JOB) as lease:
            assert lease is not None
            proxy.delay["to_upstream"] = 0.3
        assert sessions(database_url)
        assert is_free(database_url)


async def test_server_that_does_not_answer_is_no_confirmation(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with through_proxy(database_url) as (proxy, url), locks_on(url).try_acquire(JOB) as lease:
        assert lease is not None
        monkeypatch.setattr(type(lease._connection), "answer_timeout", 0.1)
        proxy.stall()
        async with asyncio.timeout(SECONDS):
            assert not await lease.confirm()
    await until_free(database_url)


class LeapingClock(SystemClock):
    """As a process sees time that was paused meanwhile."""

    paused_for = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.paused_for


async def test_answer_that_comes_after_the_lease_has_expired_is_no_confirmation(database_url: str) -> None:
    clock, ttl = LeapingClock(), timedelta(minutes=5)
    locks = PostgresRunLocks(database_url=database_url, ttl=ttl, clock=clock)
    async with locks.try_acquire(JOB) as lease:
        assert lease is not None
        asking = asyncio.create_task(lease.confirm())
        await asyncio.sleep(0)  # the question is on its way
        clock.paused_for = ttl.total_seconds()
        assert not await asking
        assert lease.expired


async def test_lock_of_a_holder_that_lost_its_network_is_free_at_the_ttl(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ttl = timedelta(seconds=0.5)
    async with through_proxy(database_url) as (proxy, url), locks_on(url, ttl=ttl).try_acquire(JOB) as lease:
        assert lease is not None
        monkeypatch.setattr(type(lease._connection), "answer_timeout", 0.1)
        proxy.stall()
        await until_free(database_url)
        async with locks_on(database_url, ttl=ttl).try_acquire(JOB) as other:
            assert other is not None


async def test_acquire_whose_answer_never_came_leaves_no_lock(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("messenger_jobs.adapters.postgres.run_lock._LockConnection.answer_timeout", 0.1)
    async with through_proxy(database_url) as (proxy, url):
        lost = proxy.lose_answer(to=b"pg_try_advisory_lock", then="silence")
        async with asyncio.timeout(SECONDS):
            with pytest.raises(DatabaseUnavailable):
                async with locks_on(url).try_acquire(JOB):
                    pass
        assert lost.answered.is_set()
        await until_free(database_url)


async def test_session_that_changes_between_statements_is_refused_and_locks_nothing(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As behind a transaction pooler, where the time-outs would be another session's."""
    other_session = run_lock._PREPARE.replace("pg_backend_pid()", "pg_backend_pid() + 1")
    monkeypatch.setattr(run_lock, "_PREPARE", other_session)
    with pytest.raises(Misconfigured) as refusal:
        await locks_on(database_url).try_acquire(JOB).__aenter__()
    assert refusal.value.code == "LOCK_BEHIND_POOLER"
    await until_free(database_url)


@pytest.fixture
def no_garbage_collection() -> Generator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_garbage_collection")
async def test_cancelled_while_it_connects_no_session_is_left_for_the_garbage_collector(
    database_url: str,
) -> None:
    async def acquire_as_a_cycle_does() -> None:
        task = asyncio.current_task()  # its error, once cancelled, holds this frame, which holds the task
        async with locks_on(database_url).try_acquire(JOB):
            assert task is not None

    at = 1
    while await interrupt(acquire_as_a_cycle_does(), at=at, moment="before the answer"):
        await until_free(database_url)
        at += 1
    assert at > 3


async def test_confirmation_keeps_the_lock_beyond_its_ttl(database_url: str) -> None:
    async with locks_on(database_url, ttl=timedelta(seconds=0.4)).try_acquire(JOB) as lease:
        assert lease is not None
        clock = SystemClock()
        start = clock.monotonic()
        while clock.monotonic() < start + 1.0:
            await asyncio.sleep(0.1)
            assert await lease.confirm()
        assert not is_free(database_url)


HOLDER = """
import asyncio, sys
from datetime import timedelta
from messenger_jobs.adapters.postgres import run_lock
from messenger_jobs.adapters.postgres.run_lock import PostgresRunLocks
from messenger_jobs.adapters.system.clock import SystemClock

async def hold(url, ttl):
    locks = PostgresRunLocks(database_url=url, ttl=timedelta(seconds=float(ttl)), clock=SystemClock())
    async with locks.try_acquire("chat-provision-retry") as lease:
        print("held" if lease else "busy", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        print("still held" if await lease.confirm() else "lost", flush=True)

asyncio.run(hold(*sys.argv[1:]))
"""


async def a_holder(url: str, *, ttl: float) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", HOLDER, url, str(ttl)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"held\n"
    return process


async def test_paused_holder_loses_the_lock_at_the_ttl_and_learns_of_it(database_url: str) -> None:
    holder = await a_holder(database_url, ttl=1.0)
    os.kill(holder.pid, signal.SIGSTOP)
    try:
        assert not is_free(database_url)
        await until_free(database_url)
    finally:
        os.kill(holder.pid, signal.SIGCONT)
    async with asyncio.timeout(SECONDS):
        output, _ = await holder.communicate(b"\n")
    assert output == b"lost\n"


async def test_killed_holder_frees_the_lock(database_url: str) -> None:
    holder = await a_holder(database_url, ttl=300.0)
    holder.kill()
    await holder.communicate()
    await until_free(database_url)
