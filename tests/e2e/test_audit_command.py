"""``audit`` as an operator calls it, on a real PostgreSQL."""

from __future__ import annotations

import psycopg

from tests.e2e.rows import Rows
from tests.support.processes import JOB, run, run_json

CLAIM = "no provision was tried more often than allowed"


def test_database_that_was_worked_on_is_clean(rows: Rows) -> None:
    rows.seed(20, without_members=5)
    run_json(rows.url, "run-once", JOB, MAX_ATTEMPTS=1)

    findings = run_json(rows.url, "audit", MAX_ATTEMPTS=1)

    assert len(findings) > 20
    assert {finding["violations"] for finding in findings} == {0}


def test_violation_is_told_with_the_rows_at_fault(rows: Rows) -> None:
    rows.seed(2)
    with psycopg.connect(rows.url) as connection:
        connection.execute(
            "update messenger.deal_chat_provisions set attempts = 9 where title = 'Flat 1' returning id"
        )
    before = rows.all()

    finished = run(rows.url, "audit")

    broken = next(row for row in before if row.attempts == 9)
    assert finished.returncode == 1
    assert finished.stderr.startswith("messenger-jobs: 1 of ")
    assert finished.stderr.endswith(f" invariants broken: {CLAIM} (not true of 1, such as {broken.id})\n")
    assert rows.all() == before


def test_missing_schema_is_told(empty_database_url: str) -> None:
    finished = run(empty_database_url, "audit")

    assert (finished.returncode, finished.stdout) == (1, "")
    assert finished.stderr == (
        "messenger-jobs: MESSENGER_DATABASE_URL: the database has no messenger tables: run the migrations\n"
    )
