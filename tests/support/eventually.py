"""Waiting for something that another process or task will bring about, with a bound."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

_POLL: Final = 0.005  # seconds


async def eventually(holds: Callable[[], bool], *, within: float = 60.0) -> None:
    """Let other tasks run until `holds()`; fails after `within` seconds."""
    deadline = time.monotonic() + within
    while not holds():
        assert time.monotonic() < deadline, f"it did not come to hold within {within:g} s"
        await asyncio.sleep(_POLL)


def eventually_here(holds: Callable[[], bool], *, within: float = 60.0) -> None:
    """The same where there is no event loop."""
    asyncio.run(eventually(holds, within=within))
