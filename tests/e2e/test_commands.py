"""Commands as an operator calls them, on a real PostgreSQL."""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.e2e.rows import Rows
from tests.support.processes import JOB, PREFIX, run, run_json, worker


def test_an_empty_database_is_migrated_and_then_worked_on(empty_database_url: str) -> None:
    rows = Rows(empty_database_url)

    applied = run_json(empty_database_url, "migrate")
    rows.seed(3)
    summary = run_json(empty_database_url, "run-once", JOB)

    assert applied[0]["migration"].startswith("0001")
    assert (summary["end"], summary["provisioned"]) == ("completed", 3)
    assert all(row.ready_at_the_first_attempt for row in rows.all())
    assert run_json(empty_database_url, "migrate") == []


def test_status_shows_the_backlog(rows: Rows) -> None:
    rows.seed(6, without_members=3)
    run_json(rows.url, "run-once", JOB, MAX_ATTEMPTS=1)

    status, _ = run_json(rows.url, "status", MAX_ATTEMPTS=1)

    assert (status["failed"], status["due"], status["poison"]) == (2, 0, 2)
    assert status["oldest_age_seconds"] >= 3600
    assert status["lock_holder_pid"] is None


def test_status_shows_who_holds_the_lock_and_when_the_job_last_succeeded(rows: Rows) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with worker(rows.url, POLLING_INTERVAL=0.2, MESSENGER_HTTP_PORT=port) as running:
        running.logs("cycle completed")
        rows.seed(1)
        with rows.held_up():
            rows.wait_until_held_up()

            status, _ = run_json(rows.url, "status", MESSENGER_HTTP_PORT=port)

    assert status["lock_holder_pid"] is not None
    assert status["lock_confirmed_at"] is not None
    assert status["last_success"] is not None


def test_requeued_rows_are_tried_again(rows: Rows) -> None:
    rows.seed(2, without_members=1)
    run_json(rows.url, "run-once", JOB, MAX_ATTEMPTS=1)
    assert [row.attempts for row in rows.all()] == [1, 1]

    would_be = run_json(rows.url, "requeue", JOB, "--all", "--dry-run", MAX_ATTEMPTS=1)
    assert [row.attempts for row in rows.all()] == [1, 1]
    requeued = run_json(rows.url, "requeue", JOB, would_be[0]["id"], MAX_ATTEMPTS=1)

    assert len(would_be) == 2
    assert [row["requeued"] for row in requeued] == [True]
    assert sorted(row.attempts for row in rows.all()) == [0, 1]


def test_dry_run_writes_nothing(rows: Rows) -> None:
    rows.seed(3)

    summary = run_json(rows.url, "run-once", JOB, "--dry-run")

    assert summary["provisioned"] == 3
    assert all(row.untouched for row in rows.all())


def test_table_shows_what_json_says(rows: Rows) -> None:
    rows.seed(4, without_members=2)

    summary = run_json(rows.url, "run-once", JOB, "--dry-run")
    table = run(rows.url, "run-once", JOB, "--dry-run").stdout

    shown = [[cell.strip() for cell in line.split("│")[1:3]] for line in table.splitlines() if "│" in line]
    differs = {"job_run_id", "as_of", "duration_ms"}
    assert {name for name, _ in shown} == set(summary)
    for name, text in shown:
        if name not in differs:
            value = summary[name]
            assert text == ("-" if value is None else value if isinstance(value, str) else json.dumps(value))


def test_the_file_and_the_console_script_work_as_well(rows: Rows, tmp_path: Path) -> None:
    file = tmp_path / "messenger.env"
    file.write_text(f"MESSENGER_DATABASE_URL='{rows.url}'\n")

    status, _ = run_json("", "status", "--config", str(file))

    assert status["failed"] == 0


DATABASE_COMMANDS = pytest.mark.parametrize(
    "arguments",
    [("run-once", JOB), ("migrate",), ("status",), ("requeue", JOB, "--all")],
    ids=" ".join,
)


def assert_fails_in_one_sentence(
    database_url: str, arguments: Sequence[str], exit_code: int, sentence: str
) -> None:
    finished = run(database_url, *arguments)

    assert (finished.returncode, finished.stdout, finished.stderr) == (
        exit_code,
        "",
        f"messenger-jobs: {sentence}\n",
    )


@DATABASE_COMMANDS
def test_unreachable_database_is_told(arguments: Sequence[str]) -> None:
    with socket.socket() as taken:  # bound and not listening: nobody else gets the port, and nobody answers
        taken.bind(("127.0.0.1", 0))
        url = f"postgresql://postgres:s3cr3t@127.0.0.1:{taken.getsockname()[1]}/postgres"

        assert_fails_in_one_sentence(
            url, arguments, 1, "MESSENGER_DATABASE_URL: the connection to the database failed"
        )


@DATABASE_COMMANDS
def test_wrong_password_is_told(database_url: str, arguments: Sequence[str]) -> None:
    address = urlsplit(database_url)
    wrong = address._replace(netloc=f"{address.username}:wr0ng@{address.hostname}:{address.port}").geturl()

    assert_fails_in_one_sentence(
        wrong, arguments, 1, "MESSENGER_DATABASE_URL: the database refuses the credentials (SQLSTATE 28P01)"
    )


@pytest.mark.parametrize(
    "arguments", [("run-once", JOB), ("status",), ("requeue", JOB, "--all"), ("worker",)], ids=" ".join
)
def test_missing_schema_is_told(empty_database_url: str, arguments: Sequence[str]) -> None:
    assert_fails_in_one_sentence(
        empty_database_url,
        arguments,
        1,
        "MESSENGER_DATABASE_URL: the database has no messenger tables: run the migrations",
    )


def test_unreachable_lock_database_is_told(rows: Rows) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"postgresql://postgres@127.0.0.1:{taken.getsockname()[1]}/postgres"

        finished = run(rows.url, "run-once", JOB, MESSENGER_LOCK_DATABASE_URL=url)

    assert finished.returncode == 1
    assert finished.stderr == (
        "messenger-jobs: MESSENGER_LOCK_DATABASE_URL: the connection to the database failed\n"
    )


def test_wrong_settings_are_told(rows: Rows) -> None:
    finished = run(rows.url, "worker", LOCK_TTL="1m", BATCH_SIZE="many")

    assert finished.returncode == 2
    assert finished.stderr.splitlines() == [
        f"messenger-jobs: {PREFIX}BATCH_SIZE must be a whole number",
        f"messenger-jobs: {PREFIX}LOCK_TTL must be longer than {PREFIX}MAX_RUN_DURATION",
    ]
