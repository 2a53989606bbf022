"""One history: a scenario, and a walk through everything that may happen, as choices decide."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Final

from attrs import frozen

from tests.simulation.choices import Choices, Picks, Recorded, encoded
from tests.simulation.deals import deals
from tests.simulation.faults import Fault, Port
from tests.simulation.healing import heal
from tests.simulation.journal import Journal
from tests.simulation.monitor import Violation
from tests.simulation.process import Gate, Process
from tests.simulation.recordings import recordings
from tests.simulation.simulation import Simulation
from tests.simulation.story import Story
from tests.simulation.world import LOCK_TTL, World

Scenario = Callable[[Simulation, Choices], None]

SCENARIOS: Final[dict[str, Scenario]] = {"deals": deals, "recordings": recordings}

MAX_STEPS: Final = 120
"""More happens in no history before it is healed."""

DURATIONS: Final = (
    timedelta(seconds=1),
    timedelta(seconds=61),
    timedelta(seconds=6),  # longer than any wait for a lock
    LOCK_TTL / 2 + timedelta(seconds=1),
    LOCK_TTL + timedelta(seconds=1),
    timedelta(minutes=3, seconds=1),  # longer than a cycle may take
    timedelta(minutes=31),
)
_DURATION_WEIGHTS: Final = (4, 4, 2, 3, 3, 2, 2)


_FAULTS: Final = tuple(Fault)

_EAGERNESS: Final = {
    "chat-job 1": 4,
    "chat-job 2": 3,
    "recording-job 1": 5,
    "recording-job 2": 4,
    "relay 1": 2,
}
"""How much more often than others some processes begin a run."""


@frozen
class History:
    """What came of one walk."""

    scenario: str
    picks: Picks
    violations: tuple[Violation, ...]
    steps: int
    commits: int
    faults: Counter[str]
    story: str

    @property
    def code(self) -> str:
        """The history as one word, for a command line."""
        return f"{self.scenario}-{encoded(self.picks)}"

    def __str__(self) -> str:
        broken = "\n".join(f"  {violation}" for violation in self.violations)
        return (
            f"{self.story}\n\nWhat must never happen:\n{broken or '  nothing'}\n\n"
            f"Replay it:  python -m tests.simulation --replay {self.code}"
        )

    def __repr__(self) -> str:
        return f"--replay {self.code}"


def wander(scenario: str, choices: Choices, *, told: bool = True, journal: Journal | None = None) -> History:
    """Play one history to its end."""
    recorded = Recorded(choices)
    world = World(journal=journal)
    with world.loop.running():
        simulation = Simulation(world, Story(told))
        SCENARIOS[scenario](simulation, recorded)
        world.observe(None)
        world.monitor.violations.clear()  # rows are put one by one; from here on every commit counts
        try:
            steps = _Walk(simulation, recorded).go()
            if not simulation.violations:
                heal(simulation)
        finally:
            simulation.abandon()
    return History(
        scenario=scenario,
        picks=recorded.picks,
        violations=tuple(simulation.violations),
        steps=steps,
        commits=world.monitor.commits,
        faults=world.faults,
        story=str(simulation.story),
    )


class _Walk:
    """Chooses what happens next. How wild it gets is chosen once, at the beginning."""

    def __init__(self, simulation: Simulation, choices: Choices) -> None:
        self.simulation = simulation
        self.choices = choices
        self.starts = 1 + choices.pick((1, 2, 2, 3, 3, 3, 2, 2))
        self.faults = choices.pick((3, 3, 3, 2, 1))
        self.interruptions = choices.pick((4, 3, 1))
        self.acts = choices.pick((3, 2, 2, 1)) if simulation.people else 0
        self.pauses = choices.pick((2, 3, 2, 2, 1))
        self.loyalty = (40, 8, 3, 1)[choices.pick((1, 2, 2, 2))]
        simulation.world.slow_answers = choices.pick((3, 1)) == 1
        self.speaker: Process | None = None
        self.coming: list[Fault] = []

    def go(self) -> int:
        """Take steps until nothing is left to happen; how many."""
        for step in range(MAX_STEPS):
            self.choices.turn()
            if self.simulation.violations or not self._step():
                return step
        return MAX_STEPS

    def _step(self) -> bool:
        weights = (
            14,
            2 * bool(self.starts),
            self.pauses and 1,
            2 * bool(self.faults),
            bool(self.interruptions),
            bool(self.acts),
        )
        match self.choices.pick(weights):
            case 1:
                self._start()
            case 2:
                self._pause()
            case 3:
                self._fault()
            case 4:
                self._interrupt()
            case 5:
                self._act()
            case _:
                return self._go_on()
        return True

    def _go_on(self) -> bool:
        gates = self.simulation.world.gates
        if gates:
            gate = self._some_gate()
            self.simulation.proceed(gate, self._fault_at(gate))
        elif self.starts:
            self._start()
        elif self.simulation.world.clock.time_to_next is not None:
            self.simulation.pass_time(DURATIONS[2])
        else:
            return False
        return True

    def _some_gate(self) -> Gate:
        """Whoever is at it goes on with it rather than not."""
        gates = self.simulation.world.gates
        if len(gates) == 1:
            return gates[0]
        ordered = sorted(gates, key=lambda gate: gate.process is not self.speaker)
        gate = ordered[self.choices.pick([self.loyalty] + [1] * (len(ordered) - 1))]
        self.speaker = gate.process
        return gate

    def _start(self) -> None:
        idle = [process for process in self.simulation.processes if not process.busy]
        if idle and self.starts:
            self.starts -= 1
            process = idle[self.choices.pick([_EAGERNESS.get(each.name, 1) for each in idle])]
            self.speaker = process
            self.simulation.start(process)

    def _pause(self) -> None:
        self.pauses -= 1
        self.simulation.pass_time(DURATIONS[self.choices.pick(_DURATION_WEIGHTS)])

    def _fault(self) -> None:
        """Something will go wrong where it can; the rare places get their share because the kind is chosen first."""
        self.faults -= 1
        self.coming.append(_FAULTS[self._index(_FAULTS)])

    def _fault_at(self, gate: Gate) -> Fault | None:
        possible = [fault for fault in self.coming if fault in gate.faults]
        if not possible or not self.choices.pick((1, 2)):
            return None
        self.coming.remove(possible[0])
        return possible[0]

    def _interrupt(self) -> None:
        self.interruptions -= 1
        simulation = self.simulation
        busy = [process for process in simulation.processes if process.busy]
        held = simulation.world.lock_server.held
        weights = (1, 1, 1, 3 * bool(busy), 2 * bool(busy), 2 * bool(busy), 2 * bool(held), bool(busy))
        match self.choices.pick(weights):
            case 0:
                simulation.break_down(Port.DATABASE)
            case 1:
                simulation.break_down(Port.STORAGE)
            case 2:
                simulation.break_down(Port.BROKER)
            case 3:
                simulation.kill(busy[self._index(busy)])
            case 4:
                simulation.cancel(busy[self._index(busy)])
            case 5:
                simulation.request_stop(busy[self._index(busy)])
            case 6:
                simulation.end_lock_session(held[0])
            case _:
                simulation.set_clock_back(busy[self._index(busy)], DURATIONS[-1])

    def _act(self) -> None:
        self.acts -= 1
        self.simulation.act(self.simulation.people[self._index(self.simulation.people)])

    def _index(self, alternatives: Sequence[object]) -> int:
        return self.choices.pick([1] * len(alternatives))
