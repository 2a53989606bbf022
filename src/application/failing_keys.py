"""Keys whose messages failed by themselves, and when to try them again."""

from __future__ import annotations

from attrs import define, field

from ..domain.backoff import BackoffPolicy
from .ports.entropy import Spread

Key = tuple[str, str]
"""Topic and message key: what is kept in order."""


@define(eq=False)
class FailingKeys:
    """Each key waits longer the more often it failed in a row, so that one broken topic does not slow the others.

    Times are monotonic seconds.
    """

    _backoff: BackoffPolicy
    _spread: Spread
    _failures: dict[Key, int] = field(factory=dict[Key, int], init=False)
    _until: dict[Key, float] = field(factory=dict[Key, float], init=False)

    def waits(self, key: Key, *, now: float) -> bool:
        """Whether the key's next attempt is still to come."""
        return now < self._until.get(key, now)

    def failed(self, key: Key, *, now: float) -> None:
        """The key's first message was not published."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        self._until[key] = now + self._backoff.delay(failures, self._spread()).total_seconds()

    def went_on(self, key: Key) -> None:
        """The key's first message was published or parked."""
        self._failures.pop(key, None)
        self._until.pop(key, None)

    def clear(self) -> None:
        """Forget all of them."""
        self._failures.clear()
        self._until.clear()
