"""A real PostgreSQL on which journals are played: everybody's connections, and a look at who waits for whom."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from attrs import frozen
from messenger_jobs.adapters.postgres.connection_pool import Pool, pooled_conninfo
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from tests.simulation.paced_connection import PacedConnection
from tests.simulation.postgres_rows import Observer

MOST_AT_ONCE: Final = 40
"""Calls and units of work that are under way at the same time, with a lot to spare."""

_UNHURRIED: Final = " ".join(
    (
        *("-c lock_timeout=0", "-c statement_timeout=0", "-c idle_in_transaction_session_timeout=0"),
        "-c deadlock_timeout=20ms",
    )
)
"""Whose wait takes too long is said by the journal."""

_IMPATIENT: Final = "-c lock_timeout=1s"
"""Whoever of us holds a lock does nothing until this statement has ended; the server's housekeeping makes way."""

_WAITS_FOR_US: Final = """
with recursive ahead as (
    select unnest(pg_blocking_pids(%s)) as pid union select unnest(pg_blocking_pids(pid)) from ahead
)
select from ahead join pg_stat_activity using (pid) where state like 'idle in transaction%%'
"""


@frozen
class ReplayServer:
    """Connections to a database that has the tables, and is ours alone.

    The processes have those of the pool; ``people`` is other software's.
    """

    pool: Pool
    people: Observer
    observer: Observer

    def waits_for_us(self, connection: PacedConnection | None) -> bool:
        """Whether a statement on the connection waits for a transaction that does nothing before we do."""
        if connection is None:
            return False
        return bool(self.observer.execute(_WAITS_FOR_US, [connection.info.backend_pid]).fetchall())

    def cancel_statement(self, connection: PacedConnection) -> None:
        """As the server does by itself when one takes too long."""
        self.observer.execute("select pg_cancel_backend(%s)", [connection.info.backend_pid])


@asynccontextmanager
async def replay_server(database_url: str) -> AsyncGenerator[ReplayServer]:
    """Connections to the database of the URL."""
    pool = AsyncConnectionPool(
        pooled_conninfo(make_conninfo(database_url, options=_UNHURRIED)),
        connection_class=PacedConnection,
        kwargs={"autocommit": True},
        min_size=0,
        max_size=MOST_AT_ONCE,
        open=False,
    )
    impatient = make_conninfo(database_url, options=_IMPATIENT)
    with (
        Observer.connect(impatient, autocommit=True, row_factory=dict_row) as people,
        Observer.connect(database_url, autocommit=True, row_factory=dict_row) as observer,
    ):
        async with pool:
            yield ReplayServer(pool, people, observer)
