"""Buffers that one claim of candidates reads, whatever else stands in the table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

import psycopg
from attrs import frozen
from messenger_jobs.adapters.local.postgres_server import PostgresServer
from messenger_jobs.adapters.postgres.provision_rows import BEGINNING_OF_TIME
from messenger_jobs.adapters.postgres.provision_statements import candidates
from psycopg.sql import SQL

from benchmarks.server import execute, scalar

BATCH: Final = 100
LIMIT: Final = 5.0
"""Buffers per row returned that a claim may cost."""


@frozen(kw_only=True)
class Buffers:
    """The worst claim of one case."""

    case: str
    claims: int
    rows: int
    per_row: float


CASES: Final = {
    "5 million Ready, 100 due": "ready => 5000000, due => 100, levels => 8",
    "1 million due": "due => 1000000, levels => 8",
    "1 million due, first attempts only": "due => 1000000",
    "100,000 poison, 100 due": "poison => 100000, due => 100, waiting => 1000, levels => 8",
}


def measure(server: PostgresServer, *, scale: float = 1.0) -> Iterator[Buffers]:
    """Each case in turn, on a table filled for it; ``scale`` shrinks the tables for a quick look."""
    url = server.url()
    for case, filling in CASES.items():
        _fill(url, filling, scale)
        with psycopg.connect(url, autocommit=True) as connection:
            rows, buffers = _claim(connection, _start(connection))[:2]
        yield Buffers(case=case, claims=1, rows=rows, per_row=buffers / rows)
    _fill(url, "due => 100000, levels => 8", scale)
    with _old_snapshot(url):
        yield _drain(url, "100,000 drain under an old snapshot")


def _drain(url: str, case: str) -> Buffers:
    """Claim batch after batch, each finished as a cycle does it, and keep the dearest claim."""
    claims, total, worst = 0, 0, 0.0
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = _start(connection)
        chat = connection.execute("select id from messenger.chats limit 1").fetchone()
        while True:
            rows, buffers, ids, last = _claim(connection, cursor)
            if not rows:
                return Buffers(case=case, claims=claims, rows=total, per_row=worst)
            claims, total, worst = claims + 1, total + rows, max(worst, buffers / rows)
            connection.execute(
                "update messenger.deal_chat_provisions set status = 'Ready', chat_id = %s where id = any(%s)",
                (chat and chat[0], ids),
            )
            cursor = cursor | last


def _claim(
    connection: psycopg.Connection[Any], cursor: dict[str, object]
) -> tuple[int, int, list[UUID], dict[str, object]]:
    query = candidates(8)
    plan = connection.execute(SQL("explain (analyze, buffers, format json) ") + query, cursor).fetchone()
    assert plan is not None
    root = plan[0][0]["Plan"]
    rows = connection.execute(query, cursor).fetchall()
    last = {"after_at": rows[-1][8], "after_id": rows[-1][0]} if rows else {}
    return len(rows), root["Shared Hit Blocks"] + root["Shared Read Blocks"], [row[0] for row in rows], last


def _start(connection: psycopg.Connection[Any]) -> dict[str, object]:
    row = connection.execute("select bench.as_of()").fetchone()
    assert row is not None
    return {
        "as_of": row[0],
        "stuck_since": row[0] - timedelta(minutes=5),
        "after_at": BEGINNING_OF_TIME,
        "after_id": UUID(int=0),
        "limit": BATCH,
    }


def _fill(url: str, filling: str, scale: float) -> None:
    parts = [part.split(" => ") for part in filling.split(", ")]
    scaled = ", ".join(
        f"{name} => {number if name == 'levels' else max(100, int(int(number) * scale))}"
        for name, number in parts
    )
    execute(url, "call bench.empty_provisions()", "set synchronous_commit = off")
    scalar(url, f"select bench.fill_provisions({scaled})::text")
    execute(url, "analyze messenger.deal_chat_provisions")


@contextmanager
def _old_snapshot(url: str) -> Iterator[None]:
    with psycopg.connect(url) as connection:
        connection.execute("set transaction isolation level repeatable read")
        connection.execute("select count(*) from messenger.chats")
        yield
