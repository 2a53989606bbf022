"""Who holds a job's run lock at this moment, for the eyes of an operator."""

from __future__ import annotations

from datetime import datetime
from typing import Final, LiteralString

from attrs import frozen
from psycopg.rows import class_row

from .connections import Connections
from .errors import TranslatedErrors
from .run_lock import lock_key

# The lock's key of 64 bits stands in two halves.
_HOLDER: Final[LiteralString] = """
select activity.pid, activity.application_name, host(activity.client_addr) as client_address,
       activity.backend_start as connected_at, activity.state_change as confirmed_at
from pg_locks as lock
join pg_stat_activity as activity on activity.pid = lock.pid
where lock.locktype = 'advisory' and lock.granted and lock.objsubid = 1
    and lock.database = (select oid from pg_database where datname = current_database())
    and (lock.classid::bigint << 32) | lock.objid::bigint = %s
"""


@frozen(kw_only=True)
class LockHolder:
    """The session that holds a lock. Its TTL counts from ``confirmed_at``, the end of its last statement.

    What the server hides from this account is None; a connection through a socket has no ``client_address``.
    """

    pid: int
    application_name: str | None
    client_address: str | None
    connected_at: datetime | None
    confirmed_at: datetime | None


async def lock_holder(connections: Connections, job: str) -> LockHolder | None:
    """The holder of the job's run lock on the lock's server; None when it is free.

    Raises `DatabaseUnavailable` or `Misconfigured`.
    """
    async with connections.statement() as connection:
        with TranslatedErrors():
            async with connection.cursor(row_factory=class_row(LockHolder)) as cursor:
                await cursor.execute(_HOLDER, (lock_key(job),))
                return await cursor.fetchone()
