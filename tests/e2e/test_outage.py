"""A worker whose database goes away and comes back."""

from __future__ import annotations

import signal

import pytest
from messenger_jobs.adapters.local.postgres_server import PostgresServer
from messenger_jobs.adapters.postgres.migrations import migrate

from tests.e2e.rows import Rows
from tests.support.eventually import eventually_here
from tests.support.processes import worker

SETTINGS = {"POLLING_INTERVAL": 0.1}


@pytest.fixture
def rows(own_postgres_server: PostgresServer) -> Rows:
    migrate(own_postgres_server.url())
    return Rows(own_postgres_server.url())


def test_outage_is_told_once_and_work_goes_on_after_it(
    own_postgres_server: PostgresServer, rows: Rows
) -> None:
    with worker(rows.url, **SETTINGS) as running:
        running.logs("cycle completed")

        own_postgres_server.stop("immediate")
        running.logs("cycle aborted")
        own_postgres_server.start()
        running.logs("cycle recovered")
        rows.seed(3)
        eventually_here(lambda: rows.count("Ready") == 3)
        running.send(signal.SIGTERM)
        assert running.exit_code() == 0

    assert running.events.count("cycle aborted") == 1
    assert running.events.count("cycle recovered") == 1


def test_worker_that_starts_before_its_database_waits_for_it(
    own_postgres_server: PostgresServer, rows: Rows
) -> None:
    rows.seed(3)
    own_postgres_server.stop()
    with worker(rows.url, **SETTINGS) as running:
        running.logs("database unreachable at start")
        running.logs("cycle aborted")

        own_postgres_server.start()

        running.logs("chat provisioned", times=3)
