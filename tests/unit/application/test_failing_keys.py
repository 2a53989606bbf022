from __future__ import annotations

from datetime import timedelta

import pytest
from messenger_jobs.application.failing_keys import FailingKeys
from messenger_jobs.domain.backoff import BackoffPolicy

KEY, OTHER = ("deals", "1"), ("deals", "2")


@pytest.fixture
def keys() -> FailingKeys:
    return FailingKeys(
        BackoffPolicy(base=timedelta(seconds=1), factor=2.0, cap=timedelta(minutes=1), jitter=0.0),
        lambda: 0.0,
    )


def test_key_that_failed_waits_longer_each_time_and_no_other_does(keys: FailingKeys) -> None:
    keys.failed(KEY, now=10.0)
    assert (keys.waits(KEY, now=10.9), keys.waits(KEY, now=11.0)) == (True, False)
    keys.failed(KEY, now=11.0)
    assert (keys.waits(KEY, now=12.9), keys.waits(KEY, now=13.0)) == (True, False)
    assert not keys.waits(OTHER, now=10.0)


def test_key_that_went_on_waits_no_more_and_starts_over(keys: FailingKeys) -> None:
    keys.failed(KEY, now=10.0)
    keys.failed(KEY, now=11.0)
    keys.went_on(KEY)
    assert not keys.waits(KEY, now=11.0)
    keys.failed(KEY, now=11.0)
    assert not keys.waits(KEY, now=12.0)
