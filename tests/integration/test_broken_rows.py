"""Rows as only somebody with a database client can make them: whatever is in them, the others are served.

A row is dealt with by the rules, its values being odd but usable, or it is named in the log and stays as it is.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, LiteralString
from uuid import UUID

import psycopg
import pytest
from attrs import frozen
from messenger_jobs.adapters.memory.event_publisher import MemoryEventPublisher
from messenger_jobs.adapters.memory.recording_storage import MemoryRecordingStorage
from messenger_jobs.application.chat_provision_retry import CHAT_PROVISION_RETRY
from messenger_jobs.application.cycle_report import CycleEnd
from messenger_jobs.application.integration_events import (
    CALL_RECORDING_AVAILABLE_TOPIC,
    DEAL_CHAT_STATUS_CHANGED_TOPIC,
)
from messenger_jobs.application.recording_finalize_retry import RECORDING_FINALIZE_RETRY
from messenger_jobs.application.stop_signal import StopSignal
from messenger_jobs.entrypoints.bootstrap import Application, bootstrap
from messenger_jobs.entrypoints.settings import load_settings
from psycopg import sql

from tests.e2e.outbox import Outbox
from tests.e2e.recordings import Recordings
from tests.e2e.rows import Rows
from tests.support.captured_logs import LogLines, captured_logs
from tests.support.recordings import found

# What nobody but a person at a database client writes.
TIMES = (
    "-infinity",
    "infinity",
    "294276-12-31 23:59:59+00",
    "4713-01-01 00:00:00+00 BC",
    "10000-01-01 00:00:00+00",
)
WORDS = ("", " ", "Nonsense", "ready", "\u202e\u0436\u200b", "'; drop table", "Flat\r\n\x1b[2J", "🏠" * 4)
INTEGERS = (-(2**31), -1, 0, 2**31 - 1)
LARGE = (-(2**63), -1, 0, 2**63 - 1)
DOCUMENTS = (
    "null",
    "[]",
    '"text"',
    '{"number": 1e400}',
    '{"number": ' + "9" * 5_000 + "}",
    '{"deep": ' + "[" * 2_000 + "]" * 2_000 + "}",
)
IDS = (str(UUID(int=0)), str(UUID(int=2**128 - 1)))
ODD: Final[Mapping[str, Sequence[object]]] = {
    "timestamp with time zone": TIMES,
    "character varying": WORDS,
    "integer": INTEGERS,
    "bigint": LARGE,
    "jsonb": DOCUMENTS,
    "uuid": IDS,
}
KEYS = ("id", "provision_id", "recording_id", "event_id")

_COLUMNS = """
select column_name, data_type from information_schema.columns
where table_schema = 'messenger' and table_name = %s order by ordinal_position
"""
_LOOSE = """
select format('alter table %s drop constraint %I', conrelid::regclass, conname)
from pg_constraint where contype = 'c' and connamespace = 'messenger'::regnamespace
union all
select format('alter table %I.%I alter column %I drop not null', table_schema, table_name, column_name)
from information_schema.columns c
where table_schema = 'messenger' and is_nullable = 'NO' and is_identity = 'NO' and not exists (
    select from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any(i.indkey)
    where i.indisprimary and i.indrelid = format('%I.%I', c.table_schema, c.table_name)::regclass
        and a.attname = c.column_name
)
"""


_CHAT = """
with chat as (
    insert into messenger.chats (id, kind, status, deal_id, title, created_at, updated_at)
    select id, 'Deal', 'Active', deal_id, title, now(), now() from messenger.deal_chat_provisions where id = %(id)s
    returning id
)
insert into messenger.participants (id, chat_id, user_id, role, joined_at)
select gen_random_uuid(), id, gen_random_uuid(), 'Buyer', now() from chat
"""


@frozen
class World:
    """A database without checks, and the whole application on it."""

    url: str
    application: Application
    storage: MemoryRecordingStorage
    publisher: MemoryEventPublisher

    def execute(self, statement: Any, parameters: Any = None) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement, parameters)
            return cursor.fetchall() if cursor.description else []

    def edits(self, table: str) -> list[tuple[str, object]]:
        """Every column of the table with everything odd, and with nothing at all."""
        return [
            (column, value)
            for column, kind in self.execute(_COLUMNS, (table,))
            if column not in KEYS
            for value in (*ODD.get(kind, ()), None)
        ]

    def edit(self, table: str, key: str, id: object, column: str, value: object) -> None:
        """Set the value by hand, unless even this database refuses it, such as a chat that does not exist."""
        statement = sql.SQL("update messenger.{} set {} = %s where {} = %s").format(
            *map(sql.Identifier, (table, column, key))
        )
        with suppress(psycopg.DataError, psycopg.IntegrityError, psycopg.OperationalError):
            self.execute(statement, (value, id))

    def texts(self, table: str) -> dict[UUID, str]:
        """The rows of the table by their ids, as the server writes them."""
        identifier = sql.Identifier(table)
        return dict(self.execute(sql.SQL("select id, t::text from messenger.{} t").format(identifier)))

    def ids(self, statement: LiteralString) -> list[UUID]:
        return [id_ for (id_,) in self.execute(statement)]

    def put(self, recordings: Recordings) -> UUID:
        """A recording whose file is there."""
        id_ = recordings.put(file=False)
        self.storage.answer(f"calls/{id_}.webm", found())
        return id_

    async def run(self, job: str) -> LogLines:
        with captured_logs() as logs:
            report = await self.application.jobs[job].run(StopSignal())
        assert report.end is CycleEnd.COMPLETED, report
        return logs


@pytest.fixture
async def world(database_url: str) -> AsyncGenerator[World]:
    with psycopg.connect(database_url, autocommit=True) as owner:
        for (loosen,) in owner.execute(_LOOSE).fetchall():
            owner.execute(loosen)
    storage, publisher = MemoryRecordingStorage(), MemoryEventPublisher()
    for topic in (DEAL_CHAT_STATUS_CHANGED_TOPIC, CALL_RECORDING_AVAILABLE_TOPIC):
        publisher.add_topic(topic)
    variables = {
        "MESSENGER_DATABASE_URL": database_url,
        "MESSENGER_RECORDINGS_ENABLED": "true",
        "MESSENGER_S3_ENDPOINT": "storage.example:9000",
        "MESSENGER_S3_ACCESS_KEY": "key",
        "MESSENGER_S3_SECRET_KEY": "secret",
        "MESSENGER_S3_BUCKET_CALL_RECORDINGS": "recordings",
        "MESSENGER_CHAT_PROVISION_RETRY_BATCH_SIZE": "10",
        "MESSENGER_RECORDING_FINALIZE_RETRY_BATCH_SIZE": "10",
        "MESSENGER_OUTBOX_RELAY_BATCH_SIZE": "10",
    }
    async with bootstrap(load_settings(variables), storage=storage, publisher=publisher) as application:
        yield World(database_url, application, storage, publisher)


DUE_PROVISIONS: LiteralString = """
select id from messenger.deal_chat_provisions
where attempts between 0 and 7 and next_attempt_at <= now() and status <> 'Ready'
    and (status = 'Failed' or updated_at <= now() - interval '5 minutes')
"""
DUE_ENTRIES: LiteralString = """
select id from messenger.recording_finalize_attempts where status = 'Pending' and next_attempt_at <= now()
"""


def assert_dealt_with_or_named(
    before: Mapping[UUID, str], after: Mapping[UUID, str], due: Collection[UUID], logs: LogLines
) -> None:
    """Of what was due."""
    unnoticed = [after[id_] for id_ in due if after[id_] == before[id_] and str(id_) not in logs.text]
    assert not unnoticed, unnoticed


async def test_broken_provisions_keep_no_other_deal_from_its_chat(world: World) -> None:
    edits = [
        (table, key, column, value)
        for table, key in (
            ("deal_chat_provisions", "id"),
            ("deal_chat_provision_members", "provision_id"),
            ("chats", "id"),
            ("participants", "chat_id"),
        )
        for column, value in world.edits(table)
    ]
    rows = Rows(world.url)
    rows.seed(len(edits))
    ids = world.ids("select id from messenger.deal_chat_provisions")
    for id_, (table, key, column, value) in zip(ids, edits, strict=True):
        if table in ("chats", "participants"):
            world.execute(_CHAT, {"id": id_})
        world.edit(table, key, id_, column, value)
    rows.seed(3)
    healthy = set(world.ids("select id from messenger.deal_chat_provisions")) - set(ids)
    due, before = world.ids(DUE_PROVISIONS), world.texts("deal_chat_provisions")

    logs = await world.run(CHAT_PROVISION_RETRY)

    ready = set(world.ids("select id from messenger.deal_chat_provisions where status = 'Ready'"))
    assert healthy <= ready
    assert_dealt_with_or_named(before, world.texts("deal_chat_provisions"), due, logs)
    backlog = await world.application.backlog()
    assert backlog.oldest_created_at is not None


async def test_broken_recordings_keep_no_other_from_being_finished(world: World) -> None:
    edits = [
        (table, column, value)
        for table in ("recording_finalize_attempts", "call_recordings")
        for column, value in world.edits(table)
    ]
    recordings = Recordings(world.url, None)  # type: ignore[arg-type]  # storage is another one here
    ids = [world.put(recordings) for _ in edits]
    for id_, (table, column, value) in zip(ids, edits, strict=True):
        world.edit(table, "id" if table == "call_recordings" else "recording_id", id_, column, value)
    healthy = [world.put(recordings) for _ in range(3)]
    due, before = world.ids(DUE_ENTRIES), world.texts("recording_finalize_attempts")

    logs = await world.run(RECORDING_FINALIZE_RETRY)

    assert all(recordings.state(id_).available for id_ in healthy)
    assert_dealt_with_or_named(before, world.texts("recording_finalize_attempts"), due, logs)
    backlog = await world.application.recordings_backlog()
    assert backlog is not None


async def test_broken_messages_keep_no_other_from_being_published(world: World) -> None:
    edits = world.edits("outbox_messages")
    outbox = Outbox(world.url)
    outbox.add(keys=len(edits))
    messages = world.ids("select id from messenger.outbox_messages order by id")
    for id_, (column, value) in zip(messages, edits, strict=True):
        world.edit("outbox_messages", "id", id_, column, value)
    outbox.add_one(10_000)
    last = max(world.ids("select id from messenger.outbox_messages"))

    relay = world.application.messaging.relay
    assert relay is not None

    with captured_logs() as logs:
        report = await relay.run_once(StopSignal())

    assert report.error_code is None, [line for line in logs.parsed if line["event"] == "defect"]
    assert world.execute(
        "select id from messenger.outbox_messages where id = %s and published_at is not null", (last,)
    )
    unpublished = world.execute(
        "select event_id::text from messenger.outbox_messages"
        " where published_at is null and (dead_at is null or last_error is not null)"
    )
    assert not [event_id for (event_id,) in unpublished if event_id not in logs.text]
    await world.application.outbox_backlog()
