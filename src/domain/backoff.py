"""How long a row waits before its next attempt."""

from __future__ import annotations

from datetime import timedelta
from math import isfinite

from attrs import frozen

from .errors import InvariantViolation


@frozen(kw_only=True)
class BackoffPolicy:
    """Exponential backoff whose jitter only shortens.

    ``d(n) = min(cap, base * factor ** (n - 1))`` and ``delay = d(n) * (1 - jitter * spread)``: the cap stays
    the cap, and rows that have reached it still spread out. Raises `InvariantViolation` when built from a base
    that is not positive, a cap below the base, a factor below 1 or a jitter outside [0, 1).
    """

    base: timedelta = timedelta(minutes=1)
    factor: float = 2.0
    cap: timedelta = timedelta(minutes=15)
    jitter: float = 0.2

    def __attrs_post_init__(self) -> None:
        if self.base <= timedelta(0):
            raise InvariantViolation("the backoff base must be positive")
        if self.cap < self.base:
            raise InvariantViolation("the backoff cap must not be below the base")
        if not (isfinite(self.factor) and self.factor >= 1):
            raise InvariantViolation("the backoff factor must be a finite number of at least 1")
        if not 0 <= self.jitter < 1:
            raise InvariantViolation("the backoff jitter must be in [0, 1)")

    def delay(self, attempt: int, spread: float) -> timedelta:
        """Wait after attempt number ``attempt`` (1 is the first), shortened by ``spread`` in [0, 1).

        Total for every attempt number: growth beyond what a float holds is the cap. Raises
        `InvariantViolation` for an attempt below 1 or a spread outside [0, 1).
        """
        if attempt < 1:
            raise InvariantViolation("attempts are numbered from 1")
        if not 0 <= spread < 1:
            raise InvariantViolation("the spread must be in [0, 1)")
        return self._full(attempt) * (1 - self.jitter * spread)

    def shortest_first_delay(self) -> timedelta:
        """Lower bound of the wait after the first attempt, whatever the spread."""
        return self._full(1) * (1 - self.jitter)

    def _full(self, attempt: int) -> timedelta:
        # Compared as a ratio: multiplying a timedelta by a huge float overflows before the cap applies.
        try:
            growth = self.factor ** (attempt - 1)
        except OverflowError:
            return self.cap
        return self.cap if growth >= self.cap / self.base else self.base * growth
