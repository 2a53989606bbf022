"""The commands that look: at rows, at the set-up and at the status as it changes; on a real PostgreSQL."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from tests.e2e.rows import Rows
from tests.support.missing_server import missing_server
from tests.support.pgbouncer import MISSING, pgbouncer, pgbouncer_program
from tests.support.processes import COMMAND, JOB, environment, run, run_json


def deal_ids(rows: Rows) -> list[str]:
    with psycopg.connect(rows.url) as connection:
        return [
            str(deal_id)
            for (deal_id,) in connection.execute(
                "select deal_id from messenger.deal_chat_provisions order by next_attempt_at"
            )
        ]


def test_rows_are_listed_shown_and_explained_by_their_deals(rows: Rows) -> None:
    rows.seed(4, without_members=2)
    first, second, *_ = deal_ids(rows)
    run_json(rows.url, "run-once", JOB, MAX_ATTEMPTS=1)

    listed = run_json(rows.url, "list", JOB, MAX_ATTEMPTS=1)
    shown = run_json(rows.url, "show", JOB, first)
    poison = run_json(rows.url, "explain", JOB, second, MAX_ATTEMPTS=1)

    assert sorted(row["state"] for row in listed) == ["finished", "finished", "poison", "poison"]
    assert (shown["status"], shown["members"], shown["participants"]) == ("Ready", 2, 2)
    assert [event["type"] for event in shown["events"]] == ["DealChatProvisioned"]
    assert [message["published_at"] for message in shown["messages"]] == [None]
    assert (poison["reason"], poison["taken_now"], poison["last_error"]) == (
        "poison",
        False,
        "ProvisionGuard:NO_MEMBERS",
    )


def test_explained_remedy_is_one(rows: Rows) -> None:
    rows.seed(1, without_members=1)
    (deal_id,) = deal_ids(rows)
    run_json(rows.url, "run-once", JOB, MAX_ATTEMPTS=1)

    sentence = run_json(rows.url, "explain", JOB, deal_id, MAX_ATTEMPTS=1)["explanation"]
    remedy = sentence.split("`")[1].removeprefix("messenger-jobs ").split()
    assert run_json(rows.url, *remedy, MAX_ATTEMPTS=1)[0]["requeued"] is True

    assert run_json(rows.url, "explain", JOB, deal_id, MAX_ATTEMPTS=1)["reason"] == "due"


def test_row_that_a_worker_has_in_hand_is_explained_by_who_has_it(rows: Rows) -> None:
    rows.seed(1)
    (deal_id,) = deal_ids(rows)
    with psycopg.connect(rows.url, application_name="messenger-api") as holder:
        holder.execute("select from messenger.deal_chat_provisions for update")

        explained = run_json(rows.url, "explain", JOB, deal_id)

        assert (explained["reason"], explained["locked_by"]) == ("locked", "messenger-api")
        assert explained["locked_by_pid"] == holder.info.backend_pid
        assert "messenger-api" in explained["explanation"]


def verdicts(items: list[dict[str, Any]]) -> dict[str, str]:
    return {item["item"]: item["verdict"] for item in items}


def test_check_passes_where_all_is_well(rows: Rows) -> None:
    assert verdicts(run_json(rows.url, "check")) == {
        "database": "ok",
        "database version": "ok",
        "schema": "ok",
        "permissions": "ok",
        "lock session": "ok",
        "storage": "skipped",
        "kafka": "skipped",
    }


def test_check_tells_the_first_failure_and_all_verdicts() -> None:
    with socket.socket() as taken:  # bound and not listening
        taken.bind(("127.0.0.1", 0))
        url = f"postgresql://postgres:s3cr3t@127.0.0.1:{taken.getsockname()[1]}/postgres"

        finished = run(url, "check", "--json")

    assert finished.returncode == 1
    assert finished.stderr == (
        "messenger-jobs: database: MESSENGER_DATABASE_URL: the connection to the database failed"
        " (and 1 more checks failed)\n"
    )
    assert verdicts(json.loads(finished.stdout)) == {
        "database": "failed",
        "database version": "skipped",
        "schema": "skipped",
        "permissions": "skipped",
        "lock session": "failed",
        "storage": "skipped",
        "kafka": "skipped",
    }


def test_check_finds_the_lock_behind_a_proxy_that_pools_transactions(rows: Rows) -> None:
    if pgbouncer_program() is None:
        missing_server(MISSING)
    with pgbouncer(rows.url, "transaction") as url:
        finished = run(rows.url, "check", "--json", MESSENGER_LOCK_DATABASE_URL=url)

    assert finished.returncode == 1
    assert finished.stderr.startswith(
        "messenger-jobs: lock session: MESSENGER_LOCK_DATABASE_URL: the connection changes its session"
    )


@contextmanager
def watching(url: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [*COMMAND, "status", "--watch", *arguments],
        env=environment(url, {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_status_is_watched_until_an_interrupt(rows: Rows) -> None:
    with watching(rows.url, "--json") as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        rows.seed(3)
        later = json.loads(process.stdout.readline())
        while later["jobs"][0]["due"] != 3:  # seeded while that line was in the making
            later = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0

    assert first["jobs"][0]["due"] == 0
    assert (first["error"], later["error"]) == (None, None)
    assert first["at"] < later["at"]


def test_watching_a_database_that_is_not_there_fails_at_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"postgresql://postgres:s3cr3t@127.0.0.1:{taken.getsockname()[1]}/postgres"

        finished = run(url, "status", "--watch")

    assert finished.returncode == 1
    assert finished.stderr == (
        "messenger-jobs: MESSENGER_DATABASE_URL: the connection to the database failed\n"
    )


@pytest.mark.parametrize("command", ["list", "show", "explain"])
def test_missing_schema_is_told(empty_database_url: str, command: str) -> None:
    ids = () if command == "list" else ("00000000-0000-0000-0000-000000000001",)

    finished = run(empty_database_url, command, JOB, *ids)

    assert (finished.returncode, finished.stdout) == (1, "")
    assert finished.stderr == (
        "messenger-jobs: MESSENGER_DATABASE_URL: the database has no messenger tables: run the migrations\n"
    )
