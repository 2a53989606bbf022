"""Whether the periodic jobs still turn."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from ..application.ports.clock import Clock


class Liveness:
    """Remembers when each job last came to the end of a cycle, whatever the end was.

    ``patience`` says for each job how long it may take. An outage of the database is no reason to be restarted, so a
    cycle that was skipped or aborted counts; a cycle that never ends does not. May be asked from any thread.
    """

    def __init__(self, clock: Clock, patience: Mapping[str, timedelta]) -> None:
        self._clock = clock
        self._patience = patience
        self._last = dict.fromkeys(patience, clock.monotonic())

    def cycle_ended(self, job: str) -> None:
        """The job is alive."""
        self._last[job] = self._clock.monotonic()

    def complaints(self) -> list[str]:
        """One sentence for each job that has been silent for too long."""
        now = self._clock.monotonic()
        return [
            f"{job} has not completed a cycle for {now - self._last[job]:.0f} s"
            for job, patience in self._patience.items()
            if now - self._last[job] > patience.total_seconds()
        ]
