"""What the commands and the worker ask of the database itself, beside the jobs."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Protocol

from attrs import field, frozen
from psycopg import AsyncConnection

from ..adapters.postgres.audit import Finding, audit
from ..adapters.postgres.connection_pool import pooled_conninfo
from ..adapters.postgres.connections import Connections
from ..adapters.postgres.errors import TranslatedErrors
from ..adapters.postgres.lock_holder import LockHolder, lock_holder
from ..adapters.postgres.schema import require_schema
from ..application.ports.errors import PortError
from .settings import variable


class DatabaseUnusable(Exception):
    """The database of one setting cannot be used; ``reason`` says why, and whether that may pass by itself."""

    def __init__(self, setting: str, reason: PortError) -> None:
        super().__init__(f"{setting}: {reason}")
        self.reason = reason


class Database(Protocol):
    """The database as such. Every method raises `DatabaseUnusable`."""

    async def ping(self) -> None:
        """Return when the database answers."""
        ...

    async def ensure_usable(self) -> None:
        """Return when the database and the lock's answer, and have the tables that this version needs."""
        ...

    async def lock_holder(self, job: str) -> LockHolder | None:
        """Who runs the job right now; None when nobody does."""
        ...

    async def audit(
        self, *, max_attempts: int, max_finalize_attempts: int, since: datetime
    ) -> Sequence[Finding]:
        """Hold everything against what must never happen; reads whole tables, changes and locks nothing."""
        ...


@frozen(kw_only=True)
class PostgresDatabase:
    """`Database` over the pools of the settings' two URLs, which may be one and the same."""

    database_url: str = field(repr=False)
    lock_url: str = field(repr=False)
    connections: Connections
    lock_connections: Connections

    async def ping(self) -> None:
        """See `Database.ping`."""
        with _blaming("database_url"):
            async with self.connections.statement() as connection:
                with TranslatedErrors():
                    await connection.execute("select 1")

    async def ensure_usable(self) -> None:
        """See `Database.ensure_usable`."""
        with _blaming("database_url"):
            await _connect_once(self.database_url)
            await require_schema(self.connections)
        if self._lock_is_elsewhere:
            with _blaming("lock_database_url"):
                await _connect_once(self.lock_url)

    async def lock_holder(self, job: str) -> LockHolder | None:
        """See `Database.lock_holder`."""
        with _blaming("lock_database_url" if self._lock_is_elsewhere else "database_url"):
            return await lock_holder(self.lock_connections, job)

    async def audit(
        self, *, max_attempts: int, max_finalize_attempts: int, since: datetime
    ) -> Sequence[Finding]:
        """See `Database.audit`. On a connection of its own, since it may take longer than the pool's give an answer."""
        with _blaming("database_url"), TranslatedErrors():
            connection = await AsyncConnection.connect(pooled_conninfo(self.database_url))
            async with connection:
                return await audit(
                    connection,
                    max_attempts=max_attempts,
                    max_finalize_attempts=max_finalize_attempts,
                    since=since,
                )

    @property
    def _lock_is_elsewhere(self) -> bool:
        return self.lock_connections is not self.connections


async def _connect_once(url: str) -> None:
    """A pool keeps trying for seconds, and only then says why; an operator is told at once."""
    with TranslatedErrors():
        connection = await AsyncConnection.connect(pooled_conninfo(url))
    await connection.close()


@contextmanager
def _blaming(setting: str) -> Generator[None]:
    try:
        yield
    except PortError as error:
        raise DatabaseUnusable(variable(setting), error) from error
