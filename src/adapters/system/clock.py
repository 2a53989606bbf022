"""The computer's clocks."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime


class SystemClock:
    """A `Clock` that shows the real time; its methods may be called from any thread."""

    def now(self) -> datetime:
        """The current time, aware, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds that never go back, from an arbitrary start."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait for ``seconds``; at once when not positive. Cancellable."""
        await asyncio.sleep(max(0.0, seconds))
