"""Backoff: the delay after each attempt, and the policies that cannot exist."""

from __future__ import annotations

from datetime import timedelta
from math import inf, nan

import pytest
from messenger_jobs.domain.backoff import BackoffPolicy
from messenger_jobs.domain.errors import InvariantViolation

JUST_BELOW_ONE = 1 - 2**-53


@pytest.mark.parametrize(
    ("attempt", "minutes"),
    [(1, 1), (2, 2), (3, 4), (4, 8), (5, 15), (6, 15), (7, 15), (8, 15), (1_000_000, 15), (10**300, 15)],
)
def test_default_delay_doubles_from_one_minute_up_to_the_cap_of_fifteen(attempt: int, minutes: int) -> None:
    assert BackoffPolicy().delay(attempt, 0.0) == timedelta(minutes=minutes)


@pytest.mark.parametrize(
    ("spread", "seconds"), [(0.0, 60), (0.25, 57), (0.5, 54), (0.75, 51), (JUST_BELOW_ONE, 48)]
)
def test_spread_shortens_the_first_delay_by_up_to_a_fifth(spread: float, seconds: int) -> None:
    assert BackoffPolicy().delay(1, spread) == timedelta(seconds=seconds)


def test_delays_at_the_cap_still_spread_out() -> None:
    assert BackoffPolicy().delay(8, 0.5) == timedelta(minutes=13, seconds=30)


@pytest.mark.parametrize("spread", [0.0, 0.5, JUST_BELOW_ONE])
def test_without_jitter_the_spread_changes_nothing(spread: float) -> None:
    assert BackoffPolicy(jitter=0.0).delay(2, spread) == timedelta(minutes=2)


def test_shortest_first_delay_is_the_base_less_all_of_the_jitter() -> None:
    policy = BackoffPolicy(base=timedelta(seconds=10), jitter=0.25)

    assert policy.shortest_first_delay() == timedelta(seconds=7.5)


def test_factor_of_one_never_grows() -> None:
    assert BackoffPolicy(factor=1.0).delay(1_000_000, 0.0) == timedelta(minutes=1)


def test_growth_that_reaches_the_cap_exactly_is_the_cap() -> None:
    policy = BackoffPolicy(base=timedelta(minutes=1), factor=2.0, cap=timedelta(minutes=8))

    assert [policy.delay(attempt, 0.0) for attempt in (3, 4, 5)] == [
        timedelta(minutes=4),
        timedelta(minutes=8),
        timedelta(minutes=8),
    ]


@pytest.mark.parametrize("attempt", [0, -1, -(10**6)])
def test_attempts_are_numbered_from_one(attempt: int) -> None:
    with pytest.raises(InvariantViolation, match="attempts"):
        BackoffPolicy().delay(attempt, 0.0)


@pytest.mark.parametrize("spread", [-(2.0**-1074), -0.5, 1.0, 1.5, nan, inf, -inf])
def test_spread_outside_its_interval_is_refused(spread: float) -> None:
    with pytest.raises(InvariantViolation, match="spread"):
        BackoffPolicy().delay(1, spread)


@pytest.mark.parametrize(
    "policy",
    [
        {"base": timedelta(microseconds=1)},
        {"base": timedelta(minutes=15), "cap": timedelta(minutes=15)},
        {"factor": 1.0},
        {"jitter": 0.0},
        {"jitter": JUST_BELOW_ONE},
    ],
    ids=repr,
)
def test_policy_on_a_bound_is_accepted(policy: dict[str, timedelta | float]) -> None:
    BackoffPolicy(**policy)  # type: ignore[arg-type]  # one table for all the fields


@pytest.mark.parametrize(
    ("policy", "at_fault"),
    [
        ({"base": timedelta(0)}, "base must"),
        ({"base": timedelta(microseconds=-1)}, "base must"),
        ({"base": timedelta(minutes=15, microseconds=1)}, "cap must"),
        ({"cap": timedelta(seconds=59)}, "cap must"),
        ({"factor": JUST_BELOW_ONE}, "factor must"),
        ({"factor": -2.0}, "factor must"),
        ({"factor": inf}, "factor must"),
        ({"factor": nan}, "factor must"),
        ({"jitter": 1.0}, "jitter must"),
        ({"jitter": -0.1}, "jitter must"),
        ({"jitter": nan}, "jitter must"),
    ],
    ids=repr,
)
def test_impossible_policy_is_refused_by_naming_what_is_wrong(
    policy: dict[str, timedelta | float], at_fault: str
) -> None:
    with pytest.raises(InvariantViolation, match=at_fault):
        BackoffPolicy(**policy)  # type: ignore[arg-type]  # one table for all the fields
