"""Whatever happens to the processes, nothing happens that must never happen, and in the end everything is done."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.simulation.choices import index_at
from tests.simulation.wandering import SCENARIOS, History, wander

Value = TypeVar("Value")


class Draw(Protocol):
    def __call__(self, strategy: st.SearchStrategy[Value]) -> Value: ...


@lru_cache
def below(total: int) -> st.SearchStrategy[int]:
    return st.integers(min_value=0, max_value=total - 1)


class Drawn:
    """Choices that Hypothesis makes, so that histories which go wrong shrink."""

    def __init__(self, draw: Draw) -> None:
        self._draw = draw

    def pick(self, weights: Sequence[int]) -> int:
        return index_at(weights, self._draw(below(sum(weights))))

    def turn(self) -> None:
        pass


@st.composite
def histories(draw: Draw, scenario: str) -> History:
    return wander(scenario, Drawn(draw))


@pytest.mark.parametrize("scenario", sorted(SCENARIOS))
def test_no_history_does_what_must_never_happen(scenario: str) -> None:
    @given(history=histories(scenario))
    def holds(history: History) -> None:
        assert not history.violations, f"\n\n{history}"

    holds()
