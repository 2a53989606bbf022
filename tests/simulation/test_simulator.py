"""The simulator can be believed: it repeats itself, reaches what it claims to reach, and notices what goes wrong."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest
from attrs import evolve

from tests.simulation import deals
from tests.simulation.choices import Choices, Replayed, Seeded, decoded, encoded
from tests.simulation.faults import Fault
from tests.simulation.process import Process, Run
from tests.simulation.shrinking import shrunk
from tests.simulation.simulation import Simulation
from tests.simulation.wandering import SCENARIOS, wander

ROOT = Path(__file__).resolve().parents[2]
STORIES = """
from tests.simulation.choices import Seeded
from tests.simulation.wandering import SCENARIOS, wander
for number in range(30):
    for scenario in sorted(SCENARIOS):
        print(wander(scenario, Seeded(number)))
"""


def stories(hash_seed: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", STORIES],
        cwd=ROOT,
        env={"PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{ROOT}/.import-root:{ROOT}"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_same_choices_make_the_same_history_in_every_process() -> None:
    told = stories("1")
    assert told.count("Replay it") == 60
    assert stories("2") == told


@pytest.mark.parametrize("scenario", sorted(SCENARIOS))
def test_code_of_a_history_plays_it_again(scenario: str) -> None:
    history = wander(scenario, Seeded("again"))
    code, _, word = history.code.partition("-")
    assert str(wander(code, Replayed(decoded(word)))) == str(history)


def test_code_is_one_word_without_what_is_the_first_alternative_anyway() -> None:
    assert encoded(((0, 3, 35, 0), (0,), (), (1, 0), (0, 0))) == "03z...1"
    assert decoded("03z...1") == ((0, 3, 35), (), (), (1,))


def test_histories_reach_every_kind_of_fault_and_every_end() -> None:
    faults, told = Counter[str](), ""
    for number in range(250):
        for scenario in SCENARIOS:
            history = wander(scenario, Seeded(f"reach/{number}"), told=number % 2 == 0)
            faults += history.faults
            told += history.story
    assert {fault.value for fault in Fault} <= set(faults)
    assert {"killed", "cancelled", "asked to stop", "lock session ended", "database down"} <= set(faults)
    for end in ("completed", "out_of_time", "skipped", "stopped", "lock_lost", "aborted"):
        assert f"ends: {end}" in told
    for state in ("Ready (", "Failed (3)", "Done (", "Quarantined (", "-> Available", "-> Failed\n"):
        assert state in told


def saboteur(process: Process) -> Run:
    """Software of ours that makes everybody leave."""

    async def leave() -> None:
        database, clock = process.world.database, process.world.clock
        for each in database.rows(database.participants):
            if each.left_at is None:
                database.put(database.participants, evolve(each, left_at=clock.now() + timedelta(seconds=1)))
        process.world.observe(process)

    return leave


def sabotaged(simulation: Simulation, choices: Choices) -> None:
    deals.deals(simulation, choices)
    simulation.processes.append(Process("saboteur", 50, simulation.world, saboteur))


def test_history_that_goes_wrong_is_noticed_shrinks_and_says_how_to_see_it_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(SCENARIOS, "sabotaged", sabotaged)
    histories = (wander("sabotaged", Seeded(seed), told=False) for seed in range(200))
    broken = next(history for history in histories if history.violations)
    small = shrunk(broken)
    assert small.steps <= min(8, broken.steps)
    assert "[11] nobody is removed or changed who is there" in str(small)
    assert f"python -m tests.simulation --replay {small.code}" in str(small)
