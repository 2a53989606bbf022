"""The history of the schema ``messenger``: plain ``.sql`` files in the folder of this name, and a way to apply them.

A host may apply the files with a tool of its own instead, in the order of their names.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any, Final, LiteralString, Protocol, cast

import psycopg
from psycopg.conninfo import conninfo_to_dict
from yoyo import read_migrations  # type: ignore[import-untyped]  # has no type hints
from yoyo.backends.core.postgresql import PostgresqlPsycopgBackend  # type: ignore[import-untyped]
from yoyo.connections import DatabaseURI  # type: ignore[import-untyped]

from ...application.ports.errors import Misconfigured
from .errors import TranslatedErrors
from .run_lock import lock_key

FOLDER: Final = Path(__file__).with_suffix("")
"""Where the ``.sql`` files are; ``<id>.rollback.sql`` undoes ``<id>.sql``."""

_HISTORY: Final = "_yoyo_migration"
_CONNECT_TIMEOUT: Final = 10  # seconds
_LOCK_TIMEOUT: Final = 60  # seconds, for another migration, and for tables that are in use

_APPLIED_IDS: Final[LiteralString] = "select migration_id from messenger._yoyo_migration"


def migrate(database_url: str) -> list[str]:
    """Apply what is missing; the ids of what was applied, in their order.

    Each migration is one transaction, its entry in the history included, so being cut short is harmless, and so is
    repeating. Concurrent calls wait for each other. Blocks its thread. Raises `DatabaseUnavailable`, `Misconfigured`
    (also when a migration does not fit the tables that are there), or `RowRolledBack` when a lock could not be had.
    """
    with TranslatedErrors(), _connected(database_url) as backend:
        backend.execute(
            "select pg_advisory_lock(:key)", {"key": lock_key("migrate")}
        )  # ends with the connection
        _prepare_history(backend)
        return [_apply(backend, migration) for migration in backend.to_apply(_migrations())]


def pending(database_url: str) -> list[str]:
    """Ids of the migrations that `migrate` would apply; changes nothing. Raises like `migrate`.

    The files that a host's own tool applied count as pending here: ask `require_schema` whether the tables are right.
    """
    ids: list[str] = [migration.id for migration in _migrations()]
    with TranslatedErrors(), psycopg.connect(database_url, connect_timeout=_CONNECT_TIMEOUT) as connection:
        if connection.execute("select to_regclass('messenger._yoyo_migration')").fetchone() == (None,):
            return ids
        applied = {id_ for (id_,) in connection.execute(_APPLIED_IDS)}
    return [id_ for id_ in ids if id_ not in applied]


class _Migration(Protocol):
    id: str

    def process_steps(self, backend: _Backend, direction: str) -> None: ...


class _Backend(Protocol):
    """What is used here of yoyo's."""

    connection: psycopg.Connection

    def execute(
        self, sql: str, params: dict[str, object] | None = None
    ) -> psycopg.Cursor[tuple[Any, ...]]: ...

    def create_lock_table(self) -> None: ...

    def break_lock(self) -> None: ...

    def ensure_internal_schema_updated(self) -> None: ...

    def to_apply(self, migrations: list[_Migration]) -> list[_Migration]: ...

    def transaction(self) -> AbstractContextManager[object]: ...

    def mark_one(self, migration: _Migration, log: bool) -> None: ...


def _migrations() -> list[_Migration]:
    return cast("list[_Migration]", read_migrations(str(FOLDER)))


@contextmanager
def _connected(database_url: str) -> Generator[_Backend]:
    given = conninfo_to_dict(database_url)
    database = given.pop("dbname", None)
    ours = {
        "application_name": "messenger-jobs migrate",
        "connect_timeout": _CONNECT_TIMEOUT,
        "options": f"{given.pop('options', None) or ''} -c lock_timeout={_LOCK_TIMEOUT}s",
        "schema": "messenger",  # where yoyo keeps its history
    }
    address = DatabaseURI("postgresql+psycopg", None, None, None, None, database, {**ours, **given})
    backend = cast("_Backend", PostgresqlPsycopgBackend(address, _HISTORY))
    with closing(backend.connection):
        yield backend


def _prepare_history(backend: _Backend) -> None:
    if backend.execute("select to_regnamespace('messenger')").fetchone() == (None,):
        backend.execute("create schema messenger")
    backend.create_lock_table()
    backend.break_lock()  # left by a killed process: our own lock, which goes with its connection, is what counts
    backend.ensure_internal_schema_updated()


def _apply(backend: _Backend, migration: _Migration) -> str:
    with backend.transaction():  # yoyo by itself would write its entry in another one
        try:
            migration.process_steps(backend, "apply")
        except psycopg.ProgrammingError as error:
            raise Misconfigured(
                error.sqlstate or "MIGRATION_FAILED",
                f"migration {migration.id} does not fit the tables that are there (SQLSTATE {error.sqlstate})",
            ) from error
        backend.mark_one(migration, log=False)
    return migration.id
