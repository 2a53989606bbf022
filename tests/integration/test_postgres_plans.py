"""Plans that must not depend on how much was due when they were made."""

from __future__ import annotations

import re
from typing import Final, LiteralString

import psycopg
import pytest
from messenger_jobs.adapters.postgres import provision_statements as statements

from tests.support.builders import NOW, some_id

NOTHING_DUE = """
insert into messenger.chats (id, kind, status, deal_id, title, created_at, updated_at)
    values (gen_random_uuid(), 'Deal', 'Active', gen_random_uuid(), 'Flat', now(), now());
insert into messenger.deal_chat_provisions
    (id, deal_id, chat_id, title, status, attempts, next_attempt_at, created_at, updated_at)
select gen_random_uuid(), gen_random_uuid(), c.id, 'Flat', 'Ready', 1, now(), now(), now()
from messenger.chats c, generate_series(1, 50000);
vacuum analyze messenger.deal_chat_provisions
"""

BY_ID: Final[dict[str, LiteralString]] = {
    "settle if due": statements.SETTLE_IF_DUE,
    "settle": statements.SETTLE,
    "claim": statements.CLAIM,
    "requeue": statements.REQUEUE,
}

VALUES: Final[dict[str, object]] = {
    "id": some_id(1),
    "version": 1,
    "attempts": 1,
    "max_attempts": 8,
    "as_of": NOW,
    "stuck_since": NOW,
    "next_attempt_at": NOW,
    "updated_at": NOW,
    "status": "Failed",
    "creates_chat": False,
    "participants": "[]",
}


@pytest.fixture
def nothing_due(database_url: str) -> str:
    """A database with many finished rows, an empty ix_dcp_due, and statistics that say so."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        for statement in NOTHING_DUE.split(";"):
            connection.execute(statement.encode())
    return database_url


def test_row_known_by_its_id_is_found_by_its_primary_key_even_when_nothing_is_due(nothing_due: str) -> None:
    for name, statement in BY_ID.items():
        parameters = dict.fromkeys(re.findall(r"%\((\w+)\)s", statement)) | VALUES
        with psycopg.connect(nothing_due, cursor_factory=psycopg.ClientCursor) as connection:
            lines = connection.execute("explain " + statement, parameters).fetchall()
        plan = "\n".join(line for (line,) in lines)
        assert "pk_deal_chat_provisions" in plan, name
        assert "ix_dcp_due" not in plan, name
