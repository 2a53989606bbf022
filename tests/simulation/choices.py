"""Where decisions come from. A history is a function of its scenario and of the numbers picked here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from random import Random
from typing import Final, Protocol

_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"

Picks = tuple[tuple[int, ...], ...]
"""What was picked, turn by turn; the first turn sets the scene."""


class Choices(Protocol):
    """Picks one of several alternatives. The first is always allowed and always the most harmless."""

    def pick(self, weights: Sequence[int]) -> int:
        """The index of an alternative; one of weight 0 is never picked."""
        ...

    def turn(self) -> None:
        """The next step begins."""
        ...


class Seeded:
    """Random choices, the same for the same seed."""

    def __init__(self, seed: int | str) -> None:
        self._random = Random(seed)

    def pick(self, weights: Sequence[int]) -> int:
        """See `Choices`."""
        return index_at(weights, int(self._random.random() * sum(weights)))

    def turn(self) -> None:
        """See `Choices`."""


class Replayed:
    """Choices made before; where they do not fit, or are used up, the first alternative."""

    def __init__(self, picks: Iterable[Sequence[int]]) -> None:
        self._turns = iter(picks)
        self._picks: Iterator[int] = iter(())
        self.turn()

    def pick(self, weights: Sequence[int]) -> int:
        """See `Choices`."""
        index = next(self._picks, 0)
        return index if index < len(weights) and weights[index] else 0

    def turn(self) -> None:
        """See `Choices`. What was picked in excess of what is asked for is forgotten."""
        self._picks = iter(next(self._turns, ()))


class Recorded:
    """Remembers what another source picks."""

    def __init__(self, source: Choices) -> None:
        self._source = source
        self._turns: list[list[int]] = [[]]

    @property
    def picks(self) -> Picks:
        """All of it."""
        return tuple(map(tuple, self._turns))

    def pick(self, weights: Sequence[int]) -> int:
        """See `Choices`."""
        index = self._source.pick(weights)
        self._turns[-1].append(index)
        return index

    def turn(self) -> None:
        """See `Choices`."""
        self._source.turn()
        self._turns.append([])


def index_at(weights: Sequence[int], point: int) -> int:
    """The alternative at a point in [0, sum of the weights)."""
    for index, weight in enumerate(weights):
        point -= weight
        if point < 0:
            return index
    raise ValueError("the point is beyond the weights")


def encoded(picks: Picks) -> str:
    """The picks as one word for a command line, without what is the first alternative anyway."""
    return ".".join("".join(_DIGITS[pick] for pick in turn).rstrip("0") for turn in picks).rstrip(".")


def decoded(word: str) -> Picks:
    """The picks of a word. Raises `ValueError` for anything else."""
    return tuple(tuple(_DIGITS.index(digit) for digit in turn) for turn in word.split("."))
