"""Migrations on the real server."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from messenger_jobs.adapters.postgres import migrations, schema
from messenger_jobs.adapters.postgres.connection_pool import PooledConnections, connection_pool
from messenger_jobs.adapters.postgres.migrations import migrate, pending
from messenger_jobs.adapters.postgres.schema import missing_from_schema, require_schema
from messenger_jobs.application.ports.errors import DatabaseUnavailable, Misconfigured
from psycopg.conninfo import make_conninfo

ALL = sorted(path.stem for path in migrations.FOLDER.glob("*.sql") if not path.stem.endswith(".rollback"))


def execute(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def relations(url: str) -> set[str]:
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "select relnamespace::regnamespace || '.' || relname from pg_class"
            " where relnamespace::regnamespace::text not in ('pg_catalog', 'information_schema', 'pg_toast')"
        )
        return {name for (name,) in found}


async def missing(url: str) -> frozenset[str]:
    async with connection_pool(url, size=1) as pool:
        return await missing_from_schema(PooledConnections(pool))


async def fault(url: str) -> Misconfigured:
    async with connection_pool(url, size=1) as pool:
        with pytest.raises(Misconfigured) as caught:
            await require_schema(PooledConnections(pool))
    return caught.value


def test_everything_is_applied_in_order_to_an_empty_database(empty_database_url: str) -> None:
    assert pending(empty_database_url) == ALL
    assert migrate(empty_database_url) == ALL
    assert pending(empty_database_url) == []


def test_asking_for_what_is_pending_changes_nothing(empty_database_url: str) -> None:
    before = relations(empty_database_url)
    pending(empty_database_url)
    assert relations(empty_database_url) == before


def test_migrating_again_does_nothing(empty_database_url: str) -> None:
    migrate(empty_database_url)
    before = relations(empty_database_url)
    assert migrate(empty_database_url) == []
    assert relations(empty_database_url) == before


def test_nothing_is_created_outside_of_our_schema(empty_database_url: str) -> None:
    migrate(empty_database_url)
    assert {name.partition(".")[0] for name in relations(empty_database_url)} == {"messenger"}


def test_concurrent_migrations_apply_everything_once(empty_database_url: str) -> None:
    with ThreadPoolExecutor(4) as threads:
        applied = list(threads.map(migrate, [empty_database_url] * 4))
    assert sorted(applied) == [[], [], [], ALL]


def test_migration_goes_on_after_one_that_was_killed(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("yoyo.backends.base.DatabaseBackend.mark_one", die)
        with pytest.raises(KeyboardInterrupt):
            migrate(empty_database_url)
    # The lock of a process that could not even take it back.
    execute(empty_database_url, "insert into messenger.yoyo_lock values (1, now(), 1)")
    assert migrate(empty_database_url) == ALL


def test_failed_migration_leaves_nothing_of_itself(
    empty_database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "0001.good.sql").write_text("create table messenger.good ();")
    (tmp_path / "0002.bad.sql").write_text(
        "-- depends: 0001.good\ncreate table messenger.bad ();\nselect no_such_function();"
    )
    monkeypatch.setattr(migrations, "FOLDER", tmp_path)
    with pytest.raises(Misconfigured, match=r"0002\.bad") as caught:
        migrate(empty_database_url)
    assert caught.value.code == "42883"
    assert pending(empty_database_url) == ["0002.bad"]
    assert "messenger.bad" not in relations(empty_database_url)


def test_tables_of_somebody_else_are_left_alone(empty_database_url: str) -> None:
    execute(empty_database_url, "create schema messenger", "create table messenger.chats (id int)")
    with pytest.raises(Misconfigured, match=r"0001.* does not fit") as caught:
        migrate(empty_database_url)
    assert caught.value.code == "42P07"


def test_unreachable_database_is_said_in_one_sentence(unused_tcp_port: int) -> None:
    url = f"postgresql://somebody:secret@127.0.0.1:{unused_tcp_port}/some"
    for attempt in (migrate, pending):
        with pytest.raises(DatabaseUnavailable) as caught:
            attempt(url)
        assert "\n" not in str(caught.value)
        assert "secret" not in str(caught.value)


def test_refused_password_is_said_in_one_sentence(empty_database_url: str) -> None:
    for attempt in (migrate, pending):
        with pytest.raises(Misconfigured) as caught:
            attempt(make_conninfo(empty_database_url, password="wrong"))
        assert caught.value.code == "28P01"


async def test_migrated_database_lacks_nothing_and_has_nothing_unknown(database_url: str) -> None:
    assert await missing(database_url) == frozenset()
    with psycopg.connect(database_url) as connection:
        columns = connection.execute(
            "select table_name || '.' || column_name from information_schema.columns"
            " where table_schema = 'messenger' and table_name !~ 'yoyo'"
        ).fetchall()
        indexes = connection.execute(
            "select relname from pg_class join pg_index on indexrelid = oid"
            " where relnamespace = 'messenger'::regnamespace and not indisprimary"
        ).fetchall()
    assert {name for (name,) in columns + indexes} == schema.needed()


async def test_files_applied_by_another_tool_will_do(empty_database_url: str) -> None:
    for migration in ALL:
        execute(empty_database_url, (migrations.FOLDER / f"{migration}.sql").read_text())
    assert await missing(empty_database_url) == frozenset()


async def test_empty_database_has_no_schema(empty_database_url: str) -> None:
    assert (await fault(empty_database_url)).code == "SCHEMA_MISSING"


@pytest.mark.parametrize(
    ("change", "lack"),
    [
        ("alter table messenger.outbox_messages drop column dead_at cascade", "outbox_messages.dead_at"),
        ("drop index messenger.ix_dcp_due", "ix_dcp_due"),
    ],
)
async def test_what_an_old_schema_lacks_is_named(database_url: str, change: str, lack: str) -> None:
    execute(database_url, change)
    error = await fault(database_url)
    assert error.code == "SCHEMA_OLD"
    assert lack in str(error)


@pytest.mark.parametrize("migration", ALL)
def test_every_migration_can_be_undone(migration: str, empty_database_url: str) -> None:
    earlier = ALL[: ALL.index(migration)]
    for name in earlier:
        execute(empty_database_url, (migrations.FOLDER / f"{name}.sql").read_text())
    before = relations(empty_database_url)
    execute(empty_database_url, (migrations.FOLDER / f"{migration}.sql").read_text())
    execute(empty_database_url, (migrations.FOLDER / f"{migration}.rollback.sql").read_text())
    assert relations(empty_database_url) == before
