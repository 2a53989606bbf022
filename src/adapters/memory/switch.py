"""Where a simulation may step in."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from enum import Enum

from attrs import frozen


class Phase(Enum):
    """How far an exchange with a server has come."""

    SENT = "sent"
    """The request is under way: whoever raises here sees to it that it never arrives."""
    ANSWERED = "answered"
    """It was carried out and the answer is under way: whoever raises here loses the answer, not the effect."""


@frozen
class Step:
    """One await of a port."""

    operation: str
    phase: Phase


Switch = Callable[[Step], Awaitable[None]]
"""Awaited at every step. It may let others run, raise a port's error, or be cancelled."""


async def let_others_run(step: Step) -> None:
    """The usual switch: every other ready task runs once."""
    del step
    await asyncio.sleep(0)
