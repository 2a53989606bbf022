"""Whose connections the stores of a harness on PostgreSQL have: those of two pools, or of two hosts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import psycopg
from messenger_jobs.adapters.postgres.connection_pool import Pool, PooledConnections, connection_pool
from messenger_jobs.adapters.postgres.connections import Connections
from messenger_jobs.adapters.postgres.host_connection import HostConnection
from psycopg import AsyncConnection, AsyncRawCursor
from psycopg.conninfo import make_conninfo
from psycopg.rows import DictRow, dict_row

from tests.support.eventually import eventually

Observer = psycopg.Connection[DictRow]

_LIMITS: Final = "-c lock_timeout=700ms -c deadlock_timeout=100ms"

_BLOCKED: Final = (
    "select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
)
_LEFT_BEHIND: Final = """
select pid, state, query from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'
    and state is distinct from 'idle'
union all
select pid, mode, coalesce(relation::regclass::text, locktype) from pg_locks
where pid <> pg_backend_pid() and database = (select oid from pg_database where datname = current_database())
    and pid in (select pid from pg_stat_activity where backend_type = 'client backend')
"""


class PostgresUsers(ABC):
    """What is the same, wherever the stores have their connections from; the observer is none of them."""

    def __init__(self, observer: Observer, url: str, *connections: Connections) -> None:
        self.observer = observer
        self.url = url
        self.lend(*connections)

    @abstractmethod
    def lend(self, *connections: Connections) -> None:
        """Make the harness' two stores on these."""

    async def until_blocked(self) -> None:
        await eventually(lambda: bool(self.observer.execute(_BLOCKED.encode()).fetchall()))

    async def pass_lock_timeout(self) -> None:
        await eventually(lambda: not self.observer.execute(_BLOCKED.encode()).fetchall())

    async def assert_nothing_left(self) -> None:
        await eventually(lambda: not self.observer.execute(_LEFT_BEHIND.encode()).fetchall())


class TwoPools(PostgresUsers):
    """Two pools, as two processes have them."""

    def __init__(self, observer: Observer, url: str, *pools: Pool) -> None:
        super().__init__(observer, url, *map(PooledConnections, pools))
        self.pools = pools

    async def assert_nothing_left(self) -> None:
        await super().assert_nothing_left()
        await eventually(lambda: all(map(_everything_given_back, self.pools)))


class TwoHosts(PostgresUsers):
    """Two hosts, each with one open connection that has settings of its own."""

    def __init__(self, observer: Observer, url: str, *hosts: AsyncConnection[Any]) -> None:
        first, self._other = map(HostConnection, hosts)
        super().__init__(observer, url, first, self._other)
        self.host = hosts[0]

    async def assert_nothing_left(self) -> None:
        await super().assert_nothing_left()
        if self.host.closed:  # by psycopg, at the second cancellation: the host connects again
            self.host = await _hosts_connection(self.url)
            self.lend(HostConnection(self.host), self._other)


Pools = TypeVar("Pools", bound=TwoPools)
Hosts = TypeVar("Hosts", bound=TwoHosts)


@asynccontextmanager
async def on_two_pools(harness: type[Pools], url: str) -> AsyncGenerator[Pools]:
    limited = make_conninfo(url, options=_LIMITS)
    with Observer.connect(url, autocommit=True, row_factory=dict_row) as observer:
        async with connection_pool(limited, size=3) as pool, connection_pool(limited, size=3) as other:
            yield harness(observer, limited, pool, other)


@asynccontextmanager
async def on_two_hosts(kind: type[Hosts], url: str) -> AsyncGenerator[Hosts]:
    limited = make_conninfo(url, options=_LIMITS)
    with Observer.connect(url, autocommit=True, row_factory=dict_row) as observer:
        async with await _hosts_connection(limited) as other:
            harness = kind(observer, limited, await _hosts_connection(limited), other)
            try:
                yield harness
            finally:
                await harness.host.close()


async def _hosts_connection(url: str) -> AsyncConnection[Any]:
    """Not in autocommit mode, and with rows and cursors of another kind."""
    return await AsyncConnection[DictRow].connect(
        url, row_factory=dict_row, cursor_factory=AsyncRawCursor[DictRow]
    )


def _everything_given_back(pool: Pool) -> bool:
    stats = pool.get_stats()
    return stats["pool_available"] == stats["pool_size"] and not stats.get("requests_waiting")
