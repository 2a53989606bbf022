"""Storage as a whole cannot be asked: noticed within a cycle, so that an outage does not cost every row."""

from __future__ import annotations

from typing import Final

from attrs import define

from ..domain.evidence import Evidence, StorageMisconfigured, Unreachable

CONNECTION_FAILURE_THRESHOLD: Final = 3
"""Consecutive lookups without even a connection, after which storage counts as down for the rest of the cycle."""


@define
class StorageGuard:
    """Closed for the rest of its cycle after a fault of the whole bucket, or several connection failures in a row."""

    closed: bool = False
    _failures_in_a_row: int = 0

    def observe(self, evidence: Evidence) -> None:
        """Take note of one lookup's evidence."""
        if isinstance(evidence, StorageMisconfigured):
            self.closed = True
        elif isinstance(evidence, Unreachable) and evidence.connection_failed:
            self._failures_in_a_row += 1
            self.closed = self.closed or self._failures_in_a_row >= CONNECTION_FAILURE_THRESHOLD
        else:
            self._failures_in_a_row = 0

    def blames_outage(self, evidence: Evidence) -> bool:
        """Whether this lookup failed because storage as a whole is down, rather than for this row's sake."""
        return self.closed and isinstance(evidence, Unreachable)
