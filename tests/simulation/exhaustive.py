"""Every history of a small world: whoever can go on goes on in every order, and few faults strike everywhere.

A history is a list of decisions. It is played again from the beginning for every other decision at its end (depth
first), and left where it comes to a state that was explored before with at least as many faults to come. Two states
are taken for the same when the committed rows, the locks and the time are, and when every process that is still
running has seen the same at each of its steps: what it holds in memory is a function of that. What a process sees of
the world at an exchange is taken to be all of the world, before and after, so the comparison errs only towards
exploring a state twice.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from attrs import define, evolve, field, frozen
from messenger_jobs.adapters.memory.switch import Phase

from tests.simulation.faults import Fault, Port
from tests.simulation.healing import heal
from tests.simulation.monitor import Snapshot, Violation
from tests.simulation.process import Gate, Process
from tests.simulation.simulation import Simulation
from tests.simulation.small_worlds import SMALL_WORLDS
from tests.simulation.story import Story
from tests.simulation.world import LOCK_TTL, World

FAULTS: Final = (Fault.UNAVAILABLE, Fault.ANSWER_LOST)
"""What strikes an exchange, besides the death of its process. A row that rolls back looks like a lost connection."""

PRIVATE: Final = frozenset({"savepoint", "release savepoint"})
"""Exchanges that change nothing for others, find nothing that others change, and after which nobody looks at the
clock: where they stand among what others do does not matter."""

READING: Final = frozenset({"candidates", "unpublished", "snapshot", "refresh"})
"""Exchanges that no lock holds up."""

OWN: Final = frozenset({*PRIVATE, "begin", "commit", "rollback", "roll back to savepoint"})
"""Exchanges that end in the same way whatever others have done."""

ANY: Final = 1_000
"""More preemptions than there are exchanges."""

TOO_LONG: Final = LOCK_TTL + timedelta(seconds=1)


@frozen
class Bound:
    """How many faults there may be, and how often a process may be made to wait that could go on."""

    faults: int
    preemptions: int = ANY

    def covers(self, other: Bound) -> bool:
        """Whether everything within the other bound is within this one."""
        return self.faults >= other.faults and self.preemptions >= other.preemptions


@frozen
class Decision:
    """What is made to happen: a gate's process goes on, or suffers; without a gate, the locks' time passes."""

    left: Bound
    """What may happen afterwards."""
    gate: Gate | None = None
    fault: Fault | None = None
    kill: bool = False


@define
class Exploration:
    """What came of exploring one small world."""

    name: str
    bound: Bound
    histories: int = 0
    """Played to their end, and healed."""
    left: int = 0
    """Left where they came to a state that was explored before."""
    states: int = 0
    violations: tuple[Violation, ...] = ()
    story: str = ""

    def __str__(self) -> str:
        preemptions = (
            "any number of" if self.bound.preemptions >= ANY else f"at most {self.bound.preemptions}"
        )
        return (
            f"{self.name}: at most {self.bound.faults} faults and {preemptions} preemptions: "
            f"{self.histories + self.left:,} histories, {self.states:,} states"
        )


def explore_all(name: str, bound: Bound) -> Exploration:
    """Play every history within the bound, or until one goes wrong."""
    found, path = Exploration(name, bound), _Path()
    while not found.violations:
        _play(path, found, told=False)
        if not path.advance():
            break
    if found.violations:
        _play(path, found, told=True)
    found.states = len(path.explored)
    return found


@define
class _Path:
    """Where in the tree of decisions the next history goes."""

    taken: list[int] = field(factory=list[int])
    alternatives: list[int] = field(factory=list[int])
    explored: dict[Hashable, list[Bound]] = field(factory=dict[Hashable, list[Bound]])
    """States, with the bounds of what was explored from there."""

    def advance(self) -> bool:
        """Turn to the next history; False when there is none."""
        while self.taken and self.taken[-1] + 1 == self.alternatives[-1]:
            self.taken.pop()
            self.alternatives.pop()
        if self.taken:
            self.taken[-1] += 1
        return bool(self.taken)

    def is_known(self, state: Hashable, bound: Bound) -> bool:
        """Whether everything that can follow was explored; from now on it counts as such."""
        explored = self.explored.setdefault(state, [])
        if any(each.covers(bound) for each in explored):
            return True
        explored.append(bound)
        return False


def _play(path: _Path, found: Exploration, *, told: bool) -> None:
    world = World()
    with world.loop.running():
        simulation = Simulation(world, Story(told), exchange=timedelta(0))
        simulation.processes = SMALL_WORLDS[found.name](simulation)
        world.observe(None)
        world.monitor.violations.clear()
        view = _View(world)
        world.on_gate = view.see
        for process in simulation.processes:
            simulation.start(process)
        try:
            done = _follow(simulation, view, path, found.bound, again=told)
            if done and not simulation.violations:
                found.histories += 1
                heal(simulation)
            found.left += not done
        finally:
            simulation.abandon()
    if simulation.violations:
        found.violations, found.story = tuple(simulation.violations), str(simulation.story)


def _follow(simulation: Simulation, view: _View, path: _Path, bound: Bound, *, again: bool) -> bool:
    """Go down the path, and on from its end by first alternatives; False where everything is known already."""
    depth, speaker = 0, simulation.processes[0]
    while simulation.world.gates and not simulation.violations:
        decisions = _decisions(simulation.world.gates, speaker, bound)
        if depth == len(path.taken):
            state = view.state(simulation.processes), speaker.name if bound.preemptions < ANY else None
            if not again and path.is_known(state, bound):
                return False
            path.taken.append(0)
            path.alternatives.append(len(decisions))
        decision = decisions[path.taken[depth]]
        depth += 1
        bound, speaker = decision.left, decision.gate.process if decision.gate else speaker
        _make(simulation, view, decision)
    return again or depth < len(path.taken) or not path.is_known(view.state(simulation.processes), bound)


def _decisions(gates: Sequence[Gate], speaker: Process, bound: Bound) -> list[Decision]:
    """Everything that may happen next. Where a process does what concerns nobody else, the others need not go first."""
    private = next((gate for gate in gates if gate.step.operation in PRIVATE), None)
    own = [gate for gate in gates if gate.process is speaker]
    others = [gate for gate in gates if gate.process is not speaker]
    if private is not None:
        own, others = ([private], []) if private.process is speaker else ([], [private])
    counted = bool(own) and bound.preemptions < ANY
    preempted = evolve(bound, preemptions=bound.preemptions - counted)
    reachable = [(gate, bound) for gate in own]
    reachable += [(gate, preempted) for gate in others if preempted.preemptions >= 0]
    decisions = [Decision(left, gate) for gate, left in reachable]
    if bound.faults:
        for gate, left in reachable:
            struck = evolve(left, faults=left.faults - 1)
            decisions += [Decision(struck, gate, fault) for fault in FAULTS if fault in gate.faults]
            decisions.append(Decision(struck, gate, kill=True))
        decisions.append(Decision(evolve(bound, faults=bound.faults - 1)))
    return decisions


def _make(simulation: Simulation, view: _View, decision: Decision) -> None:
    if decision.gate is None:
        simulation.pass_time(TOO_LONG)
    elif decision.kill:
        simulation.kill(decision.gate.process)
    else:
        view.see(decision.gate, decision.fault)
        simulation.proceed(decision.gate, decision.fault)


class _View:
    """What each process has seen so far, as one number each."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._seen: dict[str, int] = {}
        self._digests: dict[int, tuple[object, int]] = {}
        self._committed: tuple[Snapshot, int] | None = None

    def see(self, gate: Gate, fault: Fault | None = None) -> None:
        """The process comes to this exchange, or goes on from it, with the world as it is."""
        name = gate.process.name
        step = (gate.step.operation, gate.step.phase is Phase.SENT, fault, self._answer_depends_on(gate))
        self._seen[name] = hash((self._seen.get(name), step))

    def state(self, processes: Sequence[Process]) -> Hashable:
        """Everything that what follows depends on."""
        running = tuple(self._seen.get(each.name) if each.busy else None for each in processes)
        waiting = tuple((gate.process.number, gate.step.operation) for gate in self._world.gates)
        return running, waiting, tuple(self._server(port) for port in Port)

    def _answer_depends_on(self, gate: Gate) -> Hashable:
        if gate.step.operation in OWN:
            return self._world.clock.monotonic()
        if gate.step.operation in READING:
            return self._committed_digest(), self._world.clock.monotonic()
        return self._server(gate.port)

    def _server(self, port: Port) -> Hashable:
        """All that an exchange with this server can depend on."""
        world, now = self._world, self._world.clock.monotonic()
        match port:
            case Port.DATABASE:
                return self._committed_digest(), frozenset(world.database.locks._locks), now
            case Port.LOCKS:
                return tuple((name, each.ends_at) for name, each in world.lock_server._holders.items()), now
            case Port.STORAGE:
                return now
            case Port.BROKER:
                return tuple(world.broker.log), now

    def _committed_digest(self) -> int:
        seen = self._world.monitor.seen
        if self._committed is None or self._committed[0] is not seen:
            self._committed = seen, self._digest_of_all(seen)
        return self._committed[1]

    def _digest_of_all(self, rows: Snapshot) -> int:
        tables: tuple[Mapping[Any, object], ...] = (
            rows.provisions,
            rows.members,
            rows.chats,
            rows.participants,
            rows.feed,
            rows.recordings,
            rows.entries,
            rows.outbox,
            rows.notices,
        )
        return hash(frozenset(self._digest(row) for table in tables for row in table.values()))

    def _digest(self, row: object) -> int:
        """The row's content; rows are values, and kept, so one with this address is this one."""
        known = self._digests.get(id(row))
        if known is None:
            known = self._digests[id(row)] = row, hash(repr(row))
        return known[1]
