"""The PostgreSQL adapter's harness for run locks."""

from __future__ import annotations

from datetime import timedelta

import psycopg
from messenger_jobs.adapters.memory.clock import ManualClock
from messenger_jobs.adapters.postgres.run_lock import PostgresRunLocks

from tests.contract.run_locks import RunLocksHarness
from tests.support.eventually import eventually

TTL = timedelta(seconds=1)

SESSIONS = """
select pid from pg_stat_activity
where datname = current_database() and starts_with(application_name, 'messenger-jobs lock ' || %s)
"""


class PostgresRunLocksHarness(RunLocksHarness):
    """The processes' clock is moved by hand; the server's is real, and waited for only where the TTL passes."""

    def __init__(self, url: str, observer: psycopg.Connection[tuple[int]]) -> None:
        self.clock = ManualClock()
        self.locks = PostgresRunLocks(database_url=url, ttl=TTL, clock=self.clock)
        self.other = PostgresRunLocks(database_url=url, ttl=TTL, clock=self.clock)
        self.observer = observer

    async def pass_time(self, part: float) -> None:
        if part >= 1:
            await eventually(lambda: not self.sessions())
        self.clock.advance(TTL * part)

    async def end_session(self, name: str) -> None:
        for pid in self.sessions(name):
            self.observer.execute("select pg_terminate_backend(%s)", [pid])
        await eventually(lambda: not self.sessions(name))

    async def assert_nothing_left(self) -> None:
        await eventually(lambda: not self.sessions())

    def sessions(self, name: str = "") -> list[int]:
        """The process ids of the sessions for the locks whose names start like this."""
        return [pid for (pid,) in self.observer.execute(SESSIONS, [name])]
