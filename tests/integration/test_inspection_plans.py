"""Listing costs what is listed: whatever else stands in the tables is not read."""

from __future__ import annotations

from typing import Final, LiteralString

import psycopg
import pytest
from messenger_jobs.adapters.postgres import finalization_inspection_statements as finalizations
from messenger_jobs.adapters.postgres import provision_inspection_statements as provisions
from messenger_jobs.application.ports.row_summary import RowState

from tests.support.builders import NOW, some_id

MANY: Final[LiteralString] = """
insert into messenger.chats (id, kind, status, deal_id, title, created_at, updated_at)
    values (gen_random_uuid(), 'Deal', 'Active', gen_random_uuid(), 'Flat', now(), now());
insert into messenger.deal_chat_provisions
    (id, deal_id, chat_id, title, status, attempts, next_attempt_at, created_at, updated_at)
select gen_random_uuid(), gen_random_uuid(), c.id, 'Flat', 'Ready', 1, now(), now(), now()
from messenger.chats c, generate_series(1, 30000);
insert into messenger.deal_chat_provisions
    (id, deal_id, title, status, attempts, next_attempt_at, created_at, updated_at)
select gen_random_uuid(), gen_random_uuid(), 'Flat', 'Failed', n % 10,
    timestamptz '2026-03-14 09:26:53Z' + (n - 10000) * interval '1 second', now(), now()
from generate_series(1, 20000) n;
insert into messenger.recording_finalize_attempts
    (id, recording_id, session_kind, session_id, status, attempts, next_attempt_at, created_at, updated_at)
select gen_random_uuid(), gen_random_uuid(), 'Direct', gen_random_uuid(),
    case when n % 5 = 0 then 'Pending' when n % 50 = 1 then 'Quarantined' else 'Done' end, n % 10,
    timestamptz '2026-03-14 09:26:53Z' + (n - 25000) * interval '1 second', now() + n * interval '1 second', now()
from generate_series(1, 50000) n;
vacuum analyze messenger.deal_chat_provisions;
vacuum analyze messenger.recording_finalize_attempts
"""

LIMIT: Final = 20
MOST_BUFFERS: Final = 400
"""Of a page; everything together is thousands."""

PARAMETERS: Final[dict[str, object]] = {
    "as_of": NOW,
    "stuck_since": NOW,
    "max_attempts": 8,
    "after_at": NOW.replace(year=1),
    "after_created_at": NOW.replace(year=1),
    "after_id": some_id(0),
    "limit": LIMIT,
}


@pytest.fixture(scope="module")
def full_database(module_database_url: str) -> str:
    with psycopg.connect(module_database_url, autocommit=True) as connection:
        for statement in MANY.split(";"):
            connection.execute(statement.encode())
    return module_database_url


def cost(database_url: str, statement: bytes) -> tuple[int, int]:
    """How many rows come, and how many buffers are read for them."""
    with psycopg.connect(database_url, cursor_factory=psycopg.ClientCursor) as connection:
        ((plan,),) = connection.execute(
            b"explain (analyze, buffers, format json) " + statement, PARAMETERS
        ).fetchall()
    root = plan[0]["Plan"]
    return root["Actual Rows"], root["Shared Hit Blocks"] + root["Shared Read Blocks"]


@pytest.mark.parametrize("state", RowState)
def test_page_of_provisions_reads_little_more_than_it_shows(full_database: str, state: RowState) -> None:
    rows, buffers = cost(full_database, provisions.page(state, 8).as_bytes(None))

    assert rows == LIMIT
    if state is RowState.WAITING:  # the rows before it are due, and read on the way
        assert buffers < 20_000
    else:
        assert buffers < MOST_BUFFERS


@pytest.mark.parametrize("state", RowState)
def test_page_of_finalizations_reads_little_more_than_it_shows(full_database: str, state: RowState) -> None:
    rows, buffers = cost(full_database, finalizations.PAGE[state].encode())

    assert rows == LIMIT
    assert buffers < MOST_BUFFERS
