"""A database whose disk is full for a while: an outage of everybody, and no row's fault."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import pytest
from messenger_jobs.adapters.local.postgres_server import PostgresServer
from messenger_jobs.adapters.postgres.migrations import migrate
from messenger_jobs.application.chat_provision_retry import CHAT_PROVISION_RETRY

from tests.e2e.recordings import JOB as RECORDING_FINALIZE_RETRY
from tests.e2e.recordings import PREFIX, Recordings
from tests.e2e.rows import Rows
from tests.support.eventually import eventually_here
from tests.support.full_disk import LOG, TABLES, FullDisk, panic_for_lack_of_room
from tests.support.processes import WorkerProcess, run, worker
from tests.support.s3_servers import Bucket

CHATS = 400  # more than fit into the room that is left in the tables' pages
CALLS = 30
MAX_ATTEMPTS = 2  # used up at once, if an outage used any
QUICK = {
    "POLLING_INTERVAL": 0.1,
    "MAX_ATTEMPTS": MAX_ATTEMPTS,
    f"{PREFIX}POLLING_INTERVAL": 0.1,
    f"{PREFIX}MAX_ATTEMPTS": MAX_ATTEMPTS,
    f"{PREFIX}STORAGE_TIMEOUT": 0.5,
    f"{PREFIX}BACKOFF_BASE": 2,
    f"{PREFIX}BACKOFF_CAP": 2,
}


@pytest.fixture
def rows(roomless_postgres: PostgresServer) -> Rows:
    migrate(roomless_postgres.url())
    return Rows(roomless_postgres.url())


@pytest.fixture
def recordings(rows: Rows, bucket: Bucket) -> Recordings:
    return Recordings(rows.url, bucket)


def settings(recordings: Recordings) -> Mapping[str, object]:
    return recordings.settings() | QUICK


def aborted(running: WorkerProcess, job: str) -> list[dict[str, Any]]:
    return [line for line in running.lines if (line["event"], line.get("job")) == ("cycle aborted", job)]


def both_aborted(running: WorkerProcess) -> bool:
    return all(aborted(running, job) for job in (CHAT_PROVISION_RETRY, RECORDING_FINALIZE_RETRY))


def finished(rows: Rows, recordings: Recordings) -> bool:
    return rows.count("Ready") == CHATS and recordings.finished()


def assert_all_was_done_once(
    rows: Rows, recordings: Recordings, calls: Sequence[UUID], *, most_looks: int
) -> None:
    assert all(row.ready_at_the_first_attempt for row in rows.all())
    states = [recordings.state(call) for call in calls]
    assert all(state.available and state.attempts <= most_looks for state in states), states
    audited = run(rows.url, "audit", MAX_ATTEMPTS=MAX_ATTEMPTS)
    assert audited.returncode == 0, audited.stderr


def test_full_disk_is_told_once_costs_no_attempt_and_work_goes_on_when_there_is_room(
    full_disk: FullDisk, rows: Rows, recordings: Recordings
) -> None:
    rows.seed(CHATS)
    calls = [recordings.put() for _ in range(CALLS)]
    with full_disk.full(TABLES), worker(rows.url, **settings(recordings)) as running:
        eventually_here(lambda: both_aborted(running))
        running.logs("cycle started", times=20)

        assert any(row.untouched for row in rows.all()), "there was room for all of them"
        assert all(row.untouched or row.ready_at_the_first_attempt for row in rows.all())
        assert not recordings.query(
            "select from messenger.recording_finalize_attempts where status = 'Quarantined' or last_error is not null"
        )
        full_disk.free()
        eventually_here(lambda: finished(rows, recordings))
        running.logs("cycle recovered", times=2)
        running.send(signal.SIGTERM)
        assert running.exit_code() == 0

    for job in (CHAT_PROVISION_RETRY, RECORDING_FINALIZE_RETRY):
        (line,) = aborted(running, job)
        assert (line["error_code"], line["reason"]) == (
            "53100",
            "the database's disk is full",
        )
    assert "defect" not in running.events
    assert_all_was_done_once(rows, recordings, calls, most_looks=1)


def test_server_that_panics_for_lack_of_room_is_an_outage_like_any_other(
    roomless_postgres: PostgresServer, full_disk: FullDisk, rows: Rows, recordings: Recordings
) -> None:
    roomless_postgres.settings = {**roomless_postgres.settings, "wal_recycle": "off", "max_wal_size": "32MB"}
    roomless_postgres.restart()
    rows.seed(CHATS)
    calls = [recordings.put() for _ in range(CALLS)]
    with worker(rows.url, **settings(recordings)) as running:
        with full_disk.full(LOG):
            running.logs("cycle started")
            panic_for_lack_of_room(roomless_postgres)
            eventually_here(lambda: both_aborted(running))
        roomless_postgres.start()
        eventually_here(lambda: finished(rows, recordings))
        running.send(signal.SIGTERM)
        assert running.exit_code() == 0

    # The server took with it the looks that it had counted: there was nobody to give them back to.
    assert_all_was_done_once(rows, recordings, calls, most_looks=2)
