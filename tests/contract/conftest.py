"""A contract's tests share a database and empty it: a new one for each would cost more than the tests."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql

_TABLES = "select tablename from pg_tables where schemaname = 'messenger'"
_OTHERS = """
select pg_terminate_backend(pid, 5000) from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'
"""


@pytest.fixture
def database_url(module_database_url: str) -> Iterator[str]:
    yield module_database_url
    with psycopg.connect(module_database_url, autocommit=True) as connection:
        connection.execute(_OTHERS)
        tables = [sql.Identifier("messenger", name) for (name,) in connection.execute(_TABLES)]
        deletions = sql.SQL("; ").join(sql.SQL("delete from {}").format(table) for table in tables)
        # The order of foreign keys does not matter when everything goes.
        connection.execute(
            sql.SQL("begin; set local session_replication_role = replica; {}; commit").format(deletions)
        )
