"""Many histories of one seed, over several processes."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing import get_context

from attrs import define, field

from tests.simulation.choices import Seeded
from tests.simulation.wandering import SCENARIOS, History, wander

CHUNK = 250


@define
class Tally:
    """What came of some histories."""

    histories: Counter[str] = field(factory=Counter[str])
    faults: Counter[str] = field(factory=Counter[str])
    steps: int = 0
    commits: int = 0
    broken: list[History] = field(factory=list[History])

    def add(self, history: History) -> None:
        """One more."""
        self.histories[history.scenario] += 1
        self.faults.update(history.faults)
        self.steps += history.steps
        self.commits += history.commits
        if history.violations:
            self.broken.append(history)

    def merge(self, other: Tally) -> None:
        """Those of another process."""
        self.histories.update(other.histories)
        self.faults.update(other.faults)
        self.steps += other.steps
        self.commits += other.commits
        self.broken += other.broken


def play(task: tuple[str, int, int]) -> Tally:
    """The histories with the numbers of one chunk; ends early at one that goes wrong."""
    seed, first, end = task
    scenarios, tally = sorted(SCENARIOS), Tally()
    for number in range(first, end):
        tally.add(wander(scenarios[number % len(scenarios)], Seeded(f"{seed}/{number}"), told=False))
        if tally.broken:
            break
        gc.collect(0)
    return tally


def leave_collecting_to_histories() -> None:
    """Each ends with it, while its memory is at hand: what is young then is its own, what was imported is frozen."""
    gc.disable()
    gc.collect()
    gc.freeze()


def chunks(seed: str, histories: int) -> Iterator[tuple[str, int, int]]:
    """All numbers, by chunks."""
    for first in range(0, histories, CHUNK):
        yield seed, first, min(first + CHUNK, histories)


def explore(seed: str, histories: int, *, processes: int, on_progress: Callable[[int], None]) -> Tally:
    """Play the histories of a seed until all are played or one goes wrong."""
    tally = Tally()
    with get_context("spawn").Pool(processes, leave_collecting_to_histories) as pool:
        for part in pool.imap_unordered(play, chunks(seed, histories)):
            tally.merge(part)
            on_progress(tally.histories.total())
            if tally.broken:
                break
    return tally
