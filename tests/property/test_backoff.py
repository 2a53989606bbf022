"""Backoff holds its formula for every policy and every attempt number."""

from __future__ import annotations

from datetime import timedelta
from fractions import Fraction
from typing import Final

from hypothesis import assume, example, given
from hypothesis import strategies as st
from messenger_jobs.domain.backoff import BackoffPolicy

from tests.property.strategies import spreads

MICROSECOND: Final = timedelta(microseconds=1)
ALMOST_ONE: Final = 1 - 2**-53
LARGEST_FACTOR: Final = 1.7976931348623157e308


@st.composite
def _policies(draw: st.DrawFn) -> BackoffPolicy:
    base = draw(st.timedeltas(min_value=MICROSECOND, max_value=timedelta.max))
    return BackoffPolicy(
        base=base,
        factor=draw(st.floats(min_value=1.0, allow_nan=False, allow_infinity=False)),
        cap=draw(st.just(base) | st.timedeltas(min_value=base, max_value=timedelta.max)),
        jitter=draw(st.floats(min_value=0.0, max_value=1.0, exclude_max=True)),
    )


policies = _policies()
attempts = (
    st.integers(min_value=1, max_value=20)
    | st.integers(min_value=1, max_value=10**6)
    | st.integers(min_value=10**6, max_value=10**300)
)


@given(policy=policies, attempt=attempts, spread=spreads)
@example(
    policy=BackoffPolicy(base=MICROSECOND, factor=LARGEST_FACTOR, cap=timedelta.max, jitter=ALMOST_ONE),
    attempt=10**6,
    spread=ALMOST_ONE,
)
@example(policy=BackoffPolicy(base=MICROSECOND, factor=1.0, cap=timedelta.max), attempt=10**300, spread=0.0)
@example(policy=BackoffPolicy(base=timedelta.max, cap=timedelta.max), attempt=2, spread=0.0)
@example(
    # The ratio is rounded up as a float: the base times it is longer than the cap, and than any timedelta.
    policy=BackoffPolicy(base=MICROSECOND, factor=timedelta.max / MICROSECOND, cap=timedelta.max),
    attempt=2,
    spread=0.0,
)
@example(
    policy=BackoffPolicy(base=MICROSECOND, factor=1.0 + 2**-52, cap=timedelta.max), attempt=10**6, spread=0.5
)
def test_delay_exists_for_every_attempt_and_lies_between_its_bounds(
    policy: BackoffPolicy, attempt: int, spread: float
) -> None:
    full = policy.delay(attempt, 0.0)

    assert policy.base <= full <= policy.cap
    assert full * (1 - policy.jitter) <= policy.delay(attempt, spread) <= full


@given(policy=policies, attempt=attempts, spread=spreads)
def test_no_delay_is_shorter_than_the_shortest_first_one(
    policy: BackoffPolicy, attempt: int, spread: float
) -> None:
    assert policy.shortest_first_delay() <= policy.delay(attempt, spread)


@given(policy=policies, attempt=attempts, further=st.integers(min_value=1, max_value=10**6), spread=spreads)
def test_later_attempts_never_wait_less(
    policy: BackoffPolicy, attempt: int, further: int, spread: float
) -> None:
    assert policy.delay(attempt, spread) <= policy.delay(attempt + further, spread)


@given(policy=policies, attempt=attempts, lower=spreads, higher=spreads)
def test_more_spread_never_waits_longer(
    policy: BackoffPolicy, attempt: int, lower: float, higher: float
) -> None:
    lower, higher = sorted((lower, higher))

    assert policy.delay(attempt, higher) <= policy.delay(attempt, lower)


def _quarters(most: int) -> st.SearchStrategy[float]:
    return st.integers(min_value=0, max_value=most).map(lambda quarters: quarters / 4)


@given(
    base=st.timedeltas(min_value=MICROSECOND, max_value=timedelta(days=30)),
    factor=_quarters(40).filter(lambda factor: factor >= 1),
    headroom=st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=365)),
    jitter=_quarters(3),
    spread=_quarters(3),
    attempt=st.integers(min_value=1, max_value=8) | st.integers(min_value=9, max_value=1000),
)
def test_delay_is_the_formula_exactly_where_binary_numbers_can_hold_it(
    *, base: timedelta, factor: float, headroom: timedelta, jitter: float, spread: float, attempt: int
) -> None:
    policy = BackoffPolicy(base=base, factor=factor, cap=base + headroom, jitter=jitter)
    grown = Fraction(base // MICROSECOND) * Fraction(factor) ** (attempt - 1)
    full = min(Fraction(policy.cap // MICROSECOND), grown)
    assume(full.denominator == 1)

    shortened = full * (1 - Fraction(jitter) * Fraction(spread))

    assert policy.delay(attempt, spread) == round(shortened) * MICROSECOND


@given(
    base=st.timedeltas(min_value=MICROSECOND, max_value=timedelta(days=30)),
    factor=st.floats(min_value=1.0, max_value=100.0),
    headroom=st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=365)),
    jitter=st.floats(min_value=0.0, max_value=1.0, exclude_max=True),
    spread=spreads,
    attempt=st.integers(min_value=1, max_value=200),
)
def test_delay_is_the_formula_to_the_microsecond_or_fifteen_digits_everywhere_else(
    *, base: timedelta, factor: float, headroom: timedelta, jitter: float, spread: float, attempt: int
) -> None:
    policy = BackoffPolicy(base=base, factor=factor, cap=base + headroom, jitter=jitter)
    grown = Fraction(base // MICROSECOND) * Fraction(factor) ** (attempt - 1)
    full = min(Fraction(policy.cap // MICROSECOND), grown)

    exact = full * (1 - Fraction(jitter) * Fraction(spread))

    assert abs(Fraction(policy.delay(attempt, spread) // MICROSECOND) - exact) <= 1 + full / 10**15
