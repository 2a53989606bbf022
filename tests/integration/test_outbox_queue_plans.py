"""Which indexes the outbox queue's statements read: what they cost must not grow with what was published."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, LiteralString

import psycopg
import pytest
from messenger_jobs.adapters.postgres import outbox_queue_statements as sql

TABLE = "outbox_messages"

# A week's worth of published messages, some of them old enough to go, few that wait, and fewer dead ones.
FILL = """
insert into messenger.outbox_messages
    (event_id, topic, message_key, aggregate_type, aggregate_id, event_type, contract_version, payload,
     occurred_at, published_at, dead_at)
select gen_random_uuid(), 'topic', number::text, 'Deal', number::text, 'Changed', 1, '{}', now(),
    case when number % 500 <> 0 then now() - number * interval '20 seconds' end,
    case when number % 5000 = 0 then now() end
from generate_series(1, 50000) as number
"""

Connection = psycopg.Connection[Any]


@pytest.fixture
def connection(database_url: str) -> Any:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(FILL)
        connection.execute("vacuum analyze messenger.outbox_messages")
        yield connection


def nodes(
    connection: Connection, statement: LiteralString, parameters: Mapping[str, object]
) -> list[dict[str, Any]]:
    """Every node of the executed statement's plan, with what it read."""
    with connection.transaction(force_rollback=True):
        explain = f"explain (analyze, buffers, format json) {statement}".encode()
        row = connection.execute(explain, parameters).fetchone()
    assert row is not None
    plan = row[0] if isinstance(row[0], list) else json.loads(row[0])

    def walk(node: dict[str, Any]) -> Any:
        yield node
        for child in node.get("Plans", []):
            yield from walk(child)

    return list(walk(plan[0]["Plan"]))


def scans(connection: Connection, statement: LiteralString, parameters: Mapping[str, object]) -> set[str]:
    """How the outbox is read: names of indexes, or the kind of the scan."""
    plan = nodes(connection, statement, parameters)
    indexes = {node["Index Name"] for node in plan if "Index Name" in node}
    others = {
        node["Node Type"]
        for node in plan
        if node.get("Relation Name") == TABLE and "Scan" in node["Node Type"] and "Index Name" not in node
    }
    return indexes | (others - {"Bitmap Heap Scan"})


def buffers(connection: Connection, statement: LiteralString, parameters: Mapping[str, object]) -> int:
    """Pages of tables and indexes that the statement looked at."""
    top = nodes(connection, statement, parameters)[0]
    return int(top["Shared Hit Blocks"] + top["Shared Read Blocks"])


def test_unpublished_messages_are_read_in_order_from_their_index(connection: Connection) -> None:
    parameters = {"after_id": 0, "up_to": 50_000, "limit": 500}
    assert scans(connection, sql.UNPUBLISHED, parameters) == {"ix_outbox_unpublished"}
    assert buffers(connection, sql.UNPUBLISHED, parameters) < 150


def test_newest_id_is_found_at_the_end_of_the_index(connection: Connection) -> None:
    assert scans(connection, sql.NEWEST_ID, {}) == {"ix_outbox_unpublished"}
    assert buffers(connection, sql.NEWEST_ID, {}) < 10


@pytest.mark.parametrize("age", ["8 days", "100 years"])
def test_old_messages_are_found_by_their_time_whether_there_are_any(connection: Connection, age: str) -> None:
    row = connection.execute("select now() - %s::interval", [age]).fetchone()
    assert row is not None
    parameters = {"published_before": row[0], "limit": 100}
    assert scans(connection, sql.PRUNE, parameters) <= {"ix_outbox_published", "pk_outbox_messages"}
    assert buffers(connection, sql.PRUNE, parameters) < 1500


def test_backlog_counts_without_what_is_published(connection: Connection) -> None:
    assert scans(connection, sql.BACKLOG, {}) == {"ix_outbox_unpublished", "ix_outbox_dead"}
    assert buffers(connection, sql.BACKLOG, {}) < 200


def test_dead_messages_are_read_from_their_index(connection: Connection) -> None:
    assert scans(connection, sql.DEAD, {"after_id": 0, "limit": 10}) == {"ix_outbox_dead"}


def test_marks_find_their_messages_by_id(connection: Connection) -> None:
    ids = [number * 500 for number in range(1, 50)]
    found = {"pk_outbox_messages", "ix_outbox_unpublished", "ix_outbox_dead"}
    published = {"ids": ids, "partitions": [1] * len(ids), "offsets": ids, "at": "2100-01-01"}
    failed = {"ids": ids, "errors": ["E:X"] * len(ids), "dead": [False] * len(ids), "at": "2100-01-01"}
    assert scans(connection, sql.MARK_PUBLISHED, published) <= found
    assert scans(connection, sql.MARK_FAILED, failed) <= found
    assert scans(connection, sql.REQUEUE, {"ids": ids}) <= found
