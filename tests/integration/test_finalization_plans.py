"""Which indexes the statements about recordings read: what they cost must not grow with what is done."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest
from messenger_jobs.adapters.postgres import finalization_statements as sql

from tests.support.builders import some_id

TABLE = "recording_finalize_attempts"

FILL = """
insert into messenger.recording_finalize_attempts
    (id, recording_id, session_kind, session_id, status, next_attempt_at, created_at, updated_at)
select gen_random_uuid(), gen_random_uuid(), 'Direct', gen_random_uuid(),
    case when number % 1000 = 0 then 'Quarantined' when number % 500 = 0 then 'Pending' else 'Done' end,
    now() - number * interval '1 second', now(), now()
from generate_series(1, 30000) as number
"""


@pytest.fixture
def connection(database_url: str) -> Any:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(FILL)
        connection.execute("vacuum analyze messenger.recording_finalize_attempts")
        yield connection


def scans(connection: psycopg.Connection[Any], statement: str, parameters: dict[str, object]) -> set[str]:
    """How the table of the finalizations is read: names of indexes, or the kind of the scan."""
    explain = f"explain (format json) {statement}".encode()
    row = connection.execute(explain, parameters).fetchone()
    assert row is not None
    plan = row[0] if isinstance(row[0], list) else json.loads(row[0])

    def nodes(node: dict[str, Any]) -> Any:
        yield node
        for child in node.get("Plans", []):
            yield from nodes(child)

    read = [node for node in nodes(plan[0]["Plan"]) if node.get("Relation Name") == TABLE]
    bitmaps = {
        node["Index Name"] for node in nodes(plan[0]["Plan"]) if node["Node Type"] == "Bitmap Index Scan"
    }
    return {node.get("Index Name", node["Node Type"]) for node in read} - {"Bitmap Heap Scan"} | bitmaps


NOW = "2100-01-01"


def test_candidates_are_read_in_order_from_their_index(connection: psycopg.Connection[Any]) -> None:
    parameters = {"as_of": NOW, "after_at": "1970-01-01", "after_id": some_id(0), "limit": 10}
    assert scans(connection, sql.CANDIDATES, parameters) == {"ix_rfa_due"}


def test_backlog_counts_without_what_is_done(connection: psycopg.Connection[Any]) -> None:
    assert scans(connection, sql.BACKLOG, {"as_of": NOW}) == {"ix_rfa_due", "ix_rfa_quarantined"}


def test_quarantined_rows_are_read_from_their_index(connection: psycopg.Connection[Any]) -> None:
    assert scans(connection, sql.QUARANTINED_IDS, {"error": None}) == {"ix_rfa_quarantined"}
