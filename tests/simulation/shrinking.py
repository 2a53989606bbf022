"""Makes a history that went wrong as short and as harmless as it can be, and still go wrong in the same way."""

from __future__ import annotations

from collections.abc import Iterator

from tests.simulation.choices import Picks, Replayed
from tests.simulation.wandering import History, wander

MOST_REPLAYS = 2_000


def shrunk(history: History, *, replays: int = MOST_REPLAYS) -> History:
    """The simplest history found that breaks the same claim."""
    best, claim, left = replayed(history), history.violations[0].claim, replays
    improved = True
    while improved:
        improved = False
        for simpler in _simplifications(best.picks):
            left -= 1
            if left < 0:
                return best
            again = wander(history.scenario, Replayed(simpler))
            if again.violations and again.violations[0].claim == claim and _cost(again) < _cost(best):
                best, improved = again, True
                break
    return best


def replayed(history: History) -> History:
    """The history again, with its story."""
    return wander(history.scenario, Replayed(history.picks))


def _simplifications(picks: Picks) -> Iterator[Picks]:
    """Whole turns left out, long stretches first; then, in every turn, picks nearer to the first alternative."""
    length = len(picks) // 2
    while length:
        for first in range(1, len(picks) - length + 1, length):
            yield (*picks[:first], *picks[first + length :])
        length //= 2
    for number, turn in enumerate(picks):
        for simpler in _simpler_turns(turn):
            yield (*picks[:number], simpler, *picks[number + 1 :])


def _simpler_turns(turn: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    if any(turn):
        yield ()
    for place, pick in enumerate(turn):
        if pick:
            yield (*turn[:place], 0, *turn[place + 1 :])
        if pick > 1:
            yield (*turn[:place], pick - 1, *turn[place + 1 :])


def _cost(history: History) -> tuple[int, int, Picks]:
    """How much happens, how much of it is anything but the first alternative, and then which alternatives."""
    return history.steps, sum(map(bool, sum(history.picks, ()))), history.picks
