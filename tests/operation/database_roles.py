"""A database with the groups of deploy/postgres/, and an account in each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import quote, urlsplit
from uuid import uuid4

import psycopg
from attrs import frozen
from messenger_jobs.adapters.postgres.migrations import migrate
from psycopg import sql

from tests.operation.deployed_files import ROOT
from tests.support.postgres_servers import PostgresTestServer

GROUPS: Final = ("migrate", "worker", "readonly", "operator")
SCRIPTS: Final = ROOT / "deploy" / "postgres"

_PASSWORD: Final = "for-a-few-seconds"


@frozen
class DatabaseWithRoles:
    """A migrated database; `accounts` are its URLs by the group of their account."""

    admin_url: str
    accounts: dict[str, str]

    def run(self, group: str, statement: str) -> list[Any]:
        """As the account of the group; rolled back."""
        with psycopg.connect(self.accounts[group]) as connection:
            cursor = connection.execute(statement.encode())
            rows = cursor.fetchall() if cursor.description else []
            connection.rollback()
        return rows


@contextmanager
def database_with_roles(server: PostgresTestServer) -> Iterator[DatabaseWithRoles]:
    names = {group: f"test_{group}_{uuid4().hex}" for group in GROUPS}
    groups = {f"messenger_{group}" for group in GROUPS}
    missing = groups - _roles(server.admin_url)
    try:
        with server.database() as admin_url:
            apply("roles.sql", admin_url)
            for group, name in names.items():
                _create_account(admin_url, name, f"messenger_{group}")
            accounts = {group: _url(admin_url, name) for group, name in names.items()}
            migrate(accounts["migrate"])
            apply("grants.sql", accounts["migrate"])
            yield DatabaseWithRoles(admin_url, accounts)
    finally:  # roles belong to the server, not to the database that is gone
        with psycopg.connect(server.admin_url, autocommit=True) as admin:
            for role in (*names.values(), *sorted(missing)):
                admin.execute(sql.SQL("drop role if exists {}").format(sql.Identifier(role)))


def apply(script: str, url: str) -> None:
    """Run a file of deploy/postgres/ as the account of the URL."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute((SCRIPTS / script).read_bytes())


def _create_account(admin_url: str, name: str, group: str) -> None:
    account, member_of = sql.Identifier(name), sql.Identifier(group)
    with psycopg.connect(admin_url, autocommit=True) as admin:
        admin.execute(
            sql.SQL("create role {} login password {} in role {}").format(
                account, sql.Literal(_PASSWORD), member_of
            )
        )
        if group == "messenger_migrate":
            admin.execute(sql.SQL("alter role {} set role {}").format(account, member_of))


def _roles(url: str) -> set[str]:
    with psycopg.connect(url) as connection:
        return {name for (name,) in connection.execute("select rolname from pg_roles")}


def _url(admin_url: str, account: str) -> str:
    parts = urlsplit(admin_url)
    address = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=f"{account}:{quote(_PASSWORD)}@{address}").geturl()
