"""Histories that the model plays first and a real PostgreSQL after it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from attrs import define, field

from tests.simulation.choices import Choices, Seeded
from tests.simulation.journal import Journal
from tests.simulation.postgres_replay import AnotherOrder, Difference, replay
from tests.simulation.replay_server import ReplayServer
from tests.simulation.wandering import SCENARIOS, History, wander

EVERY: Final = 10
"""One of so many is compared; besides, all in which calls met, since whether one waits is what databases differ in."""


@define
class Comparison:
    """How much was the same in both."""

    played: int = 0
    """Histories that the model has played."""
    compared: int = 0
    calls: int = 0
    other_orders: int = 0
    """Histories that went on in another order among those who waited for one lock; compared up to there."""
    on_history: Callable[[int], None] = field(default=lambda played: None)

    def __str__(self) -> str:
        return (
            f"{self.compared:,} of {self.played:,} histories, with {self.calls:,} calls, came to the same on PostgreSQL"
            f" as in memory ({self.other_orders} only up to where another one of several was given a lock)"
        )

    async def add(
        self, scenario: str, choices: Choices, server: ReplayServer, *, always: bool = True
    ) -> None:
        """Play one more, and compare it, always or only if calls met. Raises `Difference`, with how to see it again."""
        journal = Journal()
        # In a thread, since it has an event loop of its own.
        history = await asyncio.to_thread(wander, scenario, choices, told=False, journal=journal)
        self.played += 1
        if always or journal.calls_met:
            await self._compare(history, journal, server)
        self.on_history(self.played)

    async def add_seeded(self, seed: str, numbers: Iterable[int], server: ReplayServer) -> None:
        """A sample of the histories that the simulation plays under these numbers of the seed."""
        scenarios = sorted(SCENARIOS)
        for number in numbers:
            scenario, choices = scenarios[number % len(scenarios)], Seeded(f"{seed}/{number}")
            await self.add(scenario, choices, server, always=number // len(scenarios) % EVERY == 0)

    async def _compare(self, history: History, journal: Journal, server: ReplayServer) -> None:
        try:
            await replay(journal, server)
        except AnotherOrder:
            self.other_orders += 1
        except Difference as difference:
            again = f"Replay it:  python -m tests.simulation --on-postgres --replay {history.code}"
            raise Difference(f"\n\n{difference}\n\n{again}") from difference.__cause__
        self.compared += 1
        self.calls += journal.calls
