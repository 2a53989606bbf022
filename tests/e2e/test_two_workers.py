"""Workers that meet, and workers that lose their lock without noticing."""

from __future__ import annotations

import signal
from contextlib import ExitStack

from tests.e2e.rows import Rows
from tests.support.eventually import eventually_here
from tests.support.processes import worker

SHORT_LOCK = {"MAX_RUN_DURATION": 1, "LOCK_TTL": 1.5, "POLLING_INTERVAL": 0.2, "CONCURRENCY": 1}


def test_while_one_works_the_other_skips(rows: Rows) -> None:
    rows.seed(3)
    with worker(rows.url) as first, rows.held_up():
        rows.wait_until_held_up()
        with worker(rows.url) as second:
            second.logs("cycle skipped")

            assert "cycle started" in first.events
            assert "cycle started" not in second.events


def test_paused_worker_loses_its_lock_and_does_nothing_twice_when_it_wakes_up(rows: Rows) -> None:
    rows.seed(20)
    with worker(rows.url, **SHORT_LOCK) as paused, ExitStack() as later:
        with rows.held_up():
            rows.wait_until_held_up()
            paused.send(signal.SIGSTOP)
            eventually_here(lambda: not rows.run_lock_is_held())  # the server's doing: the worker sleeps
            other = later.enter_context(worker(rows.url, **SHORT_LOCK))
            other.logs("cycle started")
        eventually_here(lambda: rows.count("Ready") == 20)

        paused.send(signal.SIGCONT)
        paused.logs("cycle completed")
        cycle = next(line for line in paused.lines if line["event"] == "cycle completed")
        # The row in hand went to one of the two; after it the paused one noticed that its time was over.
        assert cycle["end"] in ("out_of_time", "lock_lost")
        assert cycle["provisioned"] + cycle.get("skipped", 0) == 1

    assert all(row.ready_at_the_first_attempt for row in rows.all())
    assert rows.violations(max_attempts=8) == []
