"""How a worker ends: asked, asked twice, too slow, killed; and what it leaves behind."""

from __future__ import annotations

import random
import signal
import time

import pytest

from tests.e2e.rows import Rows
from tests.support.eventually import eventually_here
from tests.support.processes import worker

ONE_AT_A_TIME = {"CONCURRENCY": 1, "POLLING_INTERVAL": 0.1}
BOTH_SIGNALS = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])


def nothing_is_left_behind(rows: Rows) -> bool:
    return not rows.run_lock_is_held() and rows.sessions_of_workers() == 0


@BOTH_SIGNALS
def test_asked_to_stop_it_finishes_the_row_in_hand_and_starts_no_other(
    rows: Rows, number: signal.Signals
) -> None:
    rows.seed(5)
    with worker(rows.url, **ONE_AT_A_TIME) as running:
        with rows.held_up():
            rows.wait_until_held_up()
            running.send(number)
            running.logs("stop requested")
        assert running.exit_code() == 0

    first, *others = rows.all()
    assert first.ready_at_the_first_attempt
    assert all(row.untouched for row in others)
    eventually_here(lambda: nothing_is_left_behind(rows))
    assert running.events[-1] == "worker stopped"


def test_asked_to_stop_between_cycles_it_ends_at_once(rows: Rows) -> None:
    with worker(rows.url, POLLING_INTERVAL="1h") as running:
        running.logs("cycle completed")
        running.send(signal.SIGTERM)

        assert running.exit_code(within=5) == 0


@BOTH_SIGNALS
def test_asked_twice_it_rolls_the_row_in_hand_back(rows: Rows, number: signal.Signals) -> None:
    rows.seed(3)
    with worker(rows.url, **ONE_AT_A_TIME) as running, rows.held_up():
        rows.wait_until_held_up()
        running.send(signal.SIGTERM)
        running.logs("stop requested")

        running.send(number)

        assert running.exit_code() == 1
        assert running.events[-1] == (
            "messenger-jobs: stopped before the rows in hand were finished; they are rolled back"
        )
        eventually_here(lambda: nothing_is_left_behind(rows))
    assert all(row.untouched for row in rows.all())


def test_too_slow_to_stop_it_rolls_the_row_in_hand_back(rows: Rows) -> None:
    rows.seed(3)
    with (
        worker(rows.url, MESSENGER_SHUTDOWN_GRACE=0.3, **ONE_AT_A_TIME) as running,
        rows.held_up(),
    ):
        rows.wait_until_held_up()

        running.send(signal.SIGTERM)

        assert running.exit_code() == 1
        eventually_here(lambda: nothing_is_left_behind(rows))
    assert all(row.untouched for row in rows.all())


MAX_ATTEMPTS = 3
IMPATIENT = {
    "MAX_ATTEMPTS": MAX_ATTEMPTS,
    "BACKOFF_BASE": 0.01,
    "BACKOFF_CAP": 0.02,
    "POLLING_INTERVAL": 0.05,
    "CONCURRENCY": 2,
}


@pytest.mark.parametrize("seed", [1])
def test_killed_at_any_moment_it_loses_nothing_and_counts_right(rows: Rows, seed: int) -> None:
    moments = random.Random(seed)
    count = 1500
    rows.seed(count, without_members=10)

    def finished() -> int:
        return sum(row.status == "Ready" or row.attempts >= MAX_ATTEMPTS for row in rows.all())

    for _ in range(4):
        with worker(rows.url, **IMPATIENT) as running:
            running.logs("cycle started")
            time.sleep(moments.uniform(0, 0.3))  # whatever it does right then
            running.send(signal.SIGKILL)
            running.exit_code()
    done_when_killed = finished()
    with worker(rows.url, **IMPATIENT) as running:
        eventually_here(lambda: finished() == count, within=60)
        running.send(signal.SIGTERM)
        assert running.exit_code() == 0

    assert 0 < done_when_killed < count  # else no kill came in the middle
    assert rows.violations(max_attempts=MAX_ATTEMPTS) == []
    refused = [row for row in rows.all() if row.status == "Failed"]
    assert len(refused) == count // 10
    assert all(row.everything == (MAX_ATTEMPTS, 0, 0, 0, 1) for row in refused)
    assert all(row.ready_at_the_first_attempt for row in rows.all() if row.status == "Ready")
