"""Time, as the application sees it."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """Wall and monotonic time. Contract tests: ``tests.contract.clock``."""

    def now(self) -> datetime:
        """The current time, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back, from an arbitrary start."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait for ``seconds`` of monotonic time; at once when not positive. Cancellable."""
        ...
