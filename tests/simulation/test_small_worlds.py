"""In small worlds every interleaving is tried out, exchange by exchange, with every fault at every place."""

from __future__ import annotations

from typing import Final

import pytest

from tests.simulation.exhaustive import Bound, explore_all

ALL_ORDERS: Final = Bound(faults=0)
ONE_FAULT: Final = Bound(faults=1, preemptions=1)
TWO_FAULTS: Final = Bound(faults=2, preemptions=1)
TWO_FAULTS_IN_TURN: Final = Bound(faults=2, preemptions=0)


@pytest.mark.parametrize(
    ("name", "bound"),
    [
        ("runners_and_consumer", ALL_ORDERS),
        ("runners_and_consumer", TWO_FAULTS),
        ("consumers", TWO_FAULTS),
        ("relays", TWO_FAULTS),
        ("runners_and_recorder", ONE_FAULT),
        ("runners_and_recorder", TWO_FAULTS_IN_TURN),
        ("runners_and_late_recorder", ONE_FAULT),
        ("runners_of_a_chat_that_is_there", ONE_FAULT),
        ("runners_of_an_untold_recording", ONE_FAULT),
    ],
)
def test_no_order_and_no_fault_does_what_must_never_happen(
    name: str, bound: Bound, capsys: pytest.CaptureFixture[str]
) -> None:
    found = explore_all(name, bound)
    with capsys.disabled():
        print(f"\n{found}", end=" ")  # noqa: T201 - how much was tried out is part of the result
    broken = "\n".join(map(str, found.violations))
    assert not found.violations, f"\n\n{found.story}\n\nWhat must never happen:\n{broken}"
