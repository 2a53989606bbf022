"""The page about tables, held against the schema."""

from __future__ import annotations

import re
from pathlib import Path

import psycopg
from messenger_jobs.adapters.postgres.schema import COLUMNS

PAGE = (Path(__file__).parents[2] / "docs" / "tables.md").read_text(encoding="utf-8")


def test_every_table_is_there_with_its_columns() -> None:
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| ([^|]+) \|$", PAGE, re.MULTILINE)

    assert {name: columns.split(", ") for name, columns in rows} == {
        name: columns.split() for name, columns in COLUMNS.items()
    }


def test_stuck_deal_is_one_that_the_job_takes(database_url: str) -> None:
    (statement,) = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
    with psycopg.connect(database_url) as connection:
        connection.execute(statement.encode())
        row = connection.execute(
            "select status, updated_at < now() - interval '5 minutes' from messenger.deal_chat_provisions"
        ).fetchone()

    assert row == ("Provisioning", True)
