"""When a worker is to be restarted."""

from __future__ import annotations

from datetime import timedelta

import pytest
from messenger_jobs.adapters.memory.clock import ManualClock
from messenger_jobs.entrypoints.liveness import Liveness


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def liveness(clock: ManualClock) -> Liveness:
    return Liveness(clock, {"quick": timedelta(seconds=10), "slow": timedelta(minutes=5)})


def test_a_new_worker_is_alive_until_its_patience_is_over(clock: ManualClock, liveness: Liveness) -> None:
    clock.advance(timedelta(seconds=10))
    assert liveness.complaints() == []

    clock.advance(timedelta(seconds=1))
    assert liveness.complaints() == ["quick has not completed a cycle for 11 s"]


def test_each_job_is_judged_by_itself(clock: ManualClock, liveness: Liveness) -> None:
    clock.advance(timedelta(minutes=6))

    liveness.cycle_ended("quick")

    assert liveness.complaints() == ["slow has not completed a cycle for 360 s"]
