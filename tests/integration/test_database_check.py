"""What is told of a database that is not as it must be."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
import pytest
from messenger_jobs.adapters.postgres.database_check import DatabaseCheck, version_item
from messenger_jobs.application.ports.check import CheckedItem, Verdict

from tests.support.missing_server import missing_server
from tests.support.pgbouncer import MISSING, pgbouncer, pgbouncer_program


def checked(url: str) -> Mapping[str, CheckedItem]:
    items = asyncio.run(DatabaseCheck(database_url=url, setting="SETTING", recordings=True)())
    return {item.item: item for item in items}


def assert_unusable(url: str, code: str, sentence: str) -> None:
    items = checked(url)
    assert items["database"].verdict is Verdict.FAILED
    assert (items["database"].code, items["database"].sentence) == (code, f"SETTING: {sentence}")
    assert {items[name].verdict for name in ("database version", "schema", "permissions")} == {
        Verdict.SKIPPED
    }


def test_database_as_it_must_be_passes(database_url: str) -> None:
    items = checked(database_url)

    assert [(item.item, item.verdict, item.code) for item in items.values()] == [
        ("database", Verdict.OK, None),
        ("database version", Verdict.OK, None),
        ("schema", Verdict.OK, None),
        ("permissions", Verdict.OK, None),
    ]


def test_server_that_is_down_is_told() -> None:
    with socket.socket() as taken:  # bound and not listening
        taken.bind(("127.0.0.1", 0))
        url = f"postgresql://worker:s3cr3t@127.0.0.1:{taken.getsockname()[1]}/messenger"

        assert_unusable(url, "CONNECTION_LOST", "the connection to the database failed")


def test_wrong_password_is_told(database_url: str) -> None:
    address = urlsplit(database_url)
    wrong = address._replace(netloc=f"{address.username}:wr0ng@{address.hostname}:{address.port}").geturl()

    assert_unusable(wrong, "28P01", "the database refuses the credentials (SQLSTATE 28P01)")


def test_missing_database_is_told(database_url: str) -> None:
    other = urlsplit(database_url)._replace(path="/there_is_no_such_database").geturl()

    assert_unusable(other, "3D000", "the database does not exist (SQLSTATE 3D000)")


def test_missing_schema_is_told(empty_database_url: str) -> None:
    items = checked(empty_database_url)

    assert items["database"].verdict is Verdict.OK
    assert (items["schema"].verdict, items["schema"].code) == (Verdict.FAILED, "SCHEMA_MISSING")


def test_old_schema_is_told(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute("alter table messenger.outbox_messages drop column dead_at")

    items = checked(database_url)

    assert (items["schema"].verdict, items["schema"].code) == (Verdict.FAILED, "SCHEMA_OLD")
    assert "outbox_messages.dead_at" in items["schema"].sentence


def test_read_only_database_is_told(database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        name = urlsplit(database_url).path.removeprefix("/")
        connection.execute(f'alter database "{name}" set default_transaction_read_only = on'.encode())

    items = checked(database_url)

    assert (items["database"].verdict, items["database"].code) == (Verdict.FAILED, "READ_ONLY")
    assert items["schema"].verdict is Verdict.OK


@pytest.fixture
def account(database_url: str) -> Iterator[str]:
    """The database's URL for somebody who may do nothing yet, named `worker_...`."""
    name = f"worker_{uuid4().hex}"
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(f"create role {name} login password 's3cr3t'".encode())
        address = urlsplit(database_url)
        yield address._replace(netloc=f"{name}:s3cr3t@{address.hostname}:{address.port}").geturl()
        connection.execute(f"drop owned by {name}; drop role {name}".encode())


def grant(database_url: str, account: str, *grants: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        for granted in grants:
            connection.execute(f"grant {granted} to {urlsplit(account).username}".encode())


def test_account_that_lacks_permissions_is_told_which(database_url: str, account: str) -> None:
    grant(
        database_url,
        account,
        "usage on schema messenger",
        "select, insert, update on all tables in schema messenger",
    )

    items = checked(account)

    assert (items["permissions"].verdict, items["permissions"].code) == (
        Verdict.FAILED,
        "PERMISSION_MISSING",
    )
    assert items["permissions"].sentence == "SETTING: the account lacks delete on outbox_messages"

    grant(database_url, account, "delete on messenger.outbox_messages")
    assert checked(account)["permissions"].verdict is Verdict.OK


def test_account_that_may_do_nothing_is_told_so(account: str) -> None:
    items = checked(account)

    assert (items["database"].verdict, items["schema"].verdict) == (Verdict.OK, Verdict.OK)
    assert items["permissions"].sentence == (
        "SETTING: the account lacks usage on schema messenger, select on chats, insert on chats and 22 more permissions"
    )


def test_proxy_that_refuses_our_limits_is_told(database_url: str) -> None:
    if pgbouncer_program() is None:
        missing_server(MISSING)
    with pgbouncer(database_url, "session") as url:
        items = checked(url)

    assert (items["database"].verdict, items["database"].code) == (
        Verdict.FAILED,
        "STARTUP_PARAMETER_REFUSED",
    )


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (130_022, "VERSION_TOO_OLD"),
        (140_000, None),
        (180_006, None),
        (190_000, "VERSION_NOT_TESTED"),
    ],
)
def test_versions_outside_of_what_is_supported_fail(number: int, code: str | None) -> None:
    item = version_item(number)

    assert item.code == code
    assert item.verdict is (Verdict.OK if code is None else Verdict.FAILED)
    assert f"PostgreSQL {number // 10_000}" in item.sentence
