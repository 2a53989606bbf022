from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from messenger_jobs.application.options import InvalidOptions, OutboxRelayOptions

ZERO = timedelta(0)
SECOND = timedelta(seconds=1)
LONGEST = {
    "polling_interval": timedelta(hours=1),
    "retention": timedelta(days=3650),
    "send_timeout": timedelta(minutes=10),
}


def problems(**changes: Any) -> list[str]:
    """The names of the options that are refused."""
    with pytest.raises(InvalidOptions) as invalid:
        OutboxRelayOptions(**changes)
    return [name for name, _ in invalid.value.problems]


def test_defaults() -> None:
    options = OutboxRelayOptions()
    assert (options.polling_interval, options.batch_size) == (SECOND, 500)
    assert (options.retention, options.send_timeout) == (timedelta(days=7), timedelta(seconds=30))


@pytest.mark.parametrize("name", LONGEST)
def test_duration_out_of_bounds_is_named_alone(name: str) -> None:
    for wrong in (ZERO, -SECOND, LONGEST[name] + timedelta(microseconds=1)):
        assert problems(**{name: wrong}) == [name]
    OutboxRelayOptions(**{name: LONGEST[name]})  # type: ignore[arg-type]  # by name


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"retention": ZERO}, "retention must be longer than 0 seconds"),
        (
            {"polling_interval": 2 * LONGEST["polling_interval"]},
            "polling_interval must not be longer than 1h",
        ),
        ({"retention": 2 * LONGEST["retention"]}, "retention must not be longer than 3650d"),
        ({"send_timeout": 2 * LONGEST["send_timeout"]}, "send_timeout must not be longer than 10m"),
        ({"batch_size": 0}, "batch_size must be between 1 and 10000"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_problem_is_one_sentence_that_names_the_option(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidOptions) as invalid:
        OutboxRelayOptions(**changes)
    assert str(invalid.value) == sentence


@pytest.mark.parametrize("size", [1, 10_000])
def test_bounds_of_the_batch_size_are_valid(size: int) -> None:
    assert OutboxRelayOptions(batch_size=size).batch_size == size


@pytest.mark.parametrize("size", [0, -1, 10_001])
def test_batch_size_out_of_bounds_is_named(size: int) -> None:
    assert problems(batch_size=size) == ["batch_size"]


def test_every_problem_is_told_at_once() -> None:
    assert problems(polling_interval=ZERO, batch_size=0, retention=ZERO, send_timeout=ZERO) == [
        "polling_interval",
        "retention",
        "send_timeout",
        "batch_size",
    ]


@pytest.mark.parametrize("polling_interval", [timedelta(microseconds=1), SECOND, timedelta(hours=1)])
@pytest.mark.parametrize("send_timeout", [SECOND, timedelta(seconds=30), timedelta(minutes=10)])
def test_lease_is_looked_at_before_it_can_expire(
    polling_interval: timedelta, send_timeout: timedelta
) -> None:
    options = OutboxRelayOptions(polling_interval=polling_interval, send_timeout=send_timeout)
    due, expired = options.lock_ttl / 2, options.lock_ttl * 0.9
    assert due + max(polling_interval, send_timeout) < expired
    assert options.lock_ttl >= timedelta(minutes=1)


@pytest.mark.parametrize(
    ("changes", "ttl"),
    [
        ({}, timedelta(seconds=90)),
        ({"send_timeout": SECOND}, timedelta(minutes=1)),
        ({"send_timeout": timedelta(minutes=10)}, timedelta(minutes=30)),
        ({"polling_interval": timedelta(hours=1)}, timedelta(hours=3)),
    ],
    ids=str,
)
def test_lock_of_a_dead_relay_is_free_after_three_times_its_longest_wait(
    changes: dict[str, Any], ttl: timedelta
) -> None:
    assert OutboxRelayOptions(**changes).lock_ttl == ttl


def test_backoff_goes_from_one_poll_to_half_a_minute() -> None:
    backoff = OutboxRelayOptions().backoff
    assert [backoff.delay(attempt, 0.0) for attempt in (1, 2, 5, 6, 99)] == [
        timedelta(seconds=seconds) for seconds in (1, 2, 16, 30, 30)
    ]


def test_rare_polling_is_its_own_backoff() -> None:
    backoff = OutboxRelayOptions(polling_interval=timedelta(minutes=1)).backoff
    assert backoff.delay(1, 0.0) == backoff.delay(9, 0.0) == timedelta(minutes=1)


def test_patience_exceeds_the_longest_wait() -> None:
    options = OutboxRelayOptions(polling_interval=timedelta(hours=1), send_timeout=timedelta(minutes=10))
    assert options.patience > timedelta(hours=1, minutes=10)
