"""A system of processes, the world around them, and everything that can be made to happen to both."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Final

from attrs import define, field
from messenger_jobs.adapters.memory.schema import ProvisionRow
from messenger_jobs.application.cycle_report import CycleEnd, CycleReport
from messenger_jobs.application.ports.errors import RowRolledBack
from messenger_jobs.domain.recording_finalize import RecordingFinalize

from tests.simulation.broker import SimulatedBroker
from tests.simulation.faults import Fault, Port
from tests.simulation.monitor import Change, Monitor, Violation
from tests.simulation.names import named
from tests.simulation.outbox_invariants import OUTBOX_INVARIANTS
from tests.simulation.process import Gate, Process, ProcessKilled
from tests.simulation.provision_invariants import PROVISION_INVARIANTS
from tests.simulation.recording_invariants import RECORDING_INVARIANTS
from tests.simulation.story import Story
from tests.simulation.world import World

INVARIANTS: Final = (*PROVISION_INVARIANTS, *RECORDING_INVARIANTS, *OUTBOX_INVARIANTS)

LONGER_THAN_ANY_WAIT: Final = timedelta(seconds=6)
"""Every wait for a lock has ended by then."""


@define(eq=False)
class Person:
    """Somebody who changes committed rows, or what is in storage, by other software than ours."""

    name: str
    act: Callable[[], None]


@define(eq=False)
class Simulation:
    """Each method makes one thing happen, and lets everybody run on until they wait for the next."""

    world: World
    story: Story
    processes: list[Process] = field(factory=list[Process])
    people: list[Person] = field(factory=list[Person])
    exchange: timedelta = timedelta(milliseconds=1)
    """How long an exchange with a server takes."""

    def __attrs_post_init__(self) -> None:
        self.world.broker = SimulatedBroker()
        self.world.monitor = Monitor(self.world, INVARIANTS, self._committed)

    @property
    def violations(self) -> list[Violation]:
        """What has happened that must never happen."""
        return self.world.monitor.violations

    def start(self, process: Process) -> None:
        """Begin a run in a process that is not busy."""
        self.story.tell(self.world.clock, f"{process.name} starts")
        process.start()
        self._run()

    def proceed(self, gate: Gate, fault: Fault | None = None) -> None:
        """Let an exchange happen, with its fault if any."""
        if fault is None:
            self.story.proceed(self.world.clock, gate)
        else:
            self.world.faults[fault.value] += 1
            self.story.tell(
                self.world.clock, f"{gate.process.name}: {gate.describe()}: {fault.value.upper()}"
            )
        self.world.clock.advance(self.exchange)
        gate.going_on.set_result(fault)
        self._run()

    def pass_time(self, by: timedelta) -> None:
        """Everybody waits, or is held up, for this long."""
        self.story.tell(self.world.clock, f"{by} pass")
        self.world.clock.advance(by)
        self._run()

    def cancel(self, process: Process) -> None:
        """Cancel whatever the process is doing."""
        self._interrupt(process, "cancelled")
        process.cancel()
        self._run()

    def request_stop(self, process: Process) -> None:
        """Ask the process to stop."""
        self._interrupt(process, "asked to stop")
        process.request_stop()
        self._run()

    def kill(self, process: Process) -> None:
        """End the process where it stands."""
        self._interrupt(process, "killed")
        process.kill()
        self._run()

    def set_clock_back(self, process: Process, by: timedelta) -> None:
        """The wall clock of the process's machine is corrected; all others stay right."""
        self._interrupt(process, f"in a machine whose clock is set back by {by}")
        process.set_back(by)

    def end_lock_session(self, name: str) -> None:
        """The server ends the session of a lock's holder, who is not told."""
        self.world.faults["lock session ended"] += 1
        self.story.tell(self.world.clock, f"the server ends the session that holds {name}")
        self.world.lock_server.end_session(name)

    def break_down(self, port: Port) -> None:
        """A server is out of reach from now on, or is there again."""
        down = self.world.down
        self.world.faults[f"{port.value} down"] += port not in down
        down.symmetric_difference_update({port})
        self.story.tell(self.world.clock, f"the {port.value} is {'down' if port in down else 'back'}")

    def act(self, person: Person) -> None:
        """Somebody does something, unless one of us has locked what they want to change."""
        self.story.tell(self.world.clock, person.name)
        with suppress(RowRolledBack):
            person.act()
        self.world.observe(None)

    def finish_runs(self) -> None:
        """Nothing goes wrong any more: whatever is under way comes to its end, and leaves nothing behind."""
        world = self.world
        world.down.clear()
        world.slow_answers = False
        while not self.violations and (world.gates or any(process.busy for process in self.processes)):
            if world.gates:
                self.proceed(world.gates[0])
            elif world.clock.time_to_next is not None:
                self.pass_time(LONGER_THAN_ANY_WAIT)
            else:
                hanging = [process.name for process in self.processes if process.busy]
                world.monitor.violate(9, "nobody waits for ever", ", ".join(hanging))

    def check_leftovers(self) -> None:
        """Hold the servers against what the processes must have given back."""
        world = self.world
        left = {
            "row locks": world.database.locks.held,
            "waits for row locks": world.database.locks.waiting,
            "open transactions": world.database.open_transactions,
            "run locks": world.lock_server.held,
            "timers": world.clock.time_to_next,
            "exceptions": [each for each in world.loop.complaints if not isinstance(each, ProcessKilled)],
        }
        for what, found in left.items():
            if found:
                world.monitor.violate(9, "nothing is left behind", f"{what}: {found}")

    def abandon(self) -> None:
        """End everything, whatever state it is in."""
        for process in self.processes:
            process.kill()
        self.world.loop.run_until_idle()

    def _interrupt(self, process: Process, how: str) -> None:
        self.world.faults[how.partition(" by ")[0]] += 1
        self.story.tell(self.world.clock, f"{process.name} is {how.upper()}")

    def _run(self) -> None:
        self.world.loop.run_until_idle()
        for each in self.processes:
            if each.task is not None and each.task.done():
                self._review(each)

    def _review(self, process: Process) -> None:
        monitor, task = self.world.monitor, process.task
        monitor.observe(process)
        assert task is not None, "the run has ended"
        problem = process.outcome()
        result = None if problem or task.cancelled() or task.exception() else task.result()
        process.task = None
        if process.killed:
            return
        if self.world.healed and not task.cancelled() and task.exception() is not None:
            problem = f"ended by {task.exception()!r} although nothing is wrong any more"
        if problem is not None:
            monitor.violate(9, "a run ends as its caller expects", f"{process.name} {problem}")
        for defect in process.telemetry.defects:
            monitor.violate(9, "nothing fails by a defect", f"{process.name}: {defect!r}")
        if isinstance(result, CycleReport):
            self.story.tell(self.world.clock, f"{process.name} ends: {result.end}")
            if result.end is CycleEnd.COMPLETED:
                self._expect_every_due_row_tried(process)
        else:
            self.story.tell(self.world.clock, f"{process.name} ends")

    def _expect_every_due_row_tried(self, process: Process) -> None:
        seen = self.world.monitor.seen
        for id_, row in process.facts.due.items():
            now = seen.provisions.get(id_) if isinstance(row, ProvisionRow) else seen.entries.get(id_)
            if now is row and id_ not in process.facts.started:
                what = f"{process.name} ended its cycle without {named(id_)}"
                self.world.monitor.violate(6, "no row is starved", what)

    def _committed(self, change: Change) -> None:
        if not self.story.told:
            return
        for step in change.provisions:
            self._tell_row(step.after and step.after.id, _provision(step.before), _provision(step.after))
        for entry in change.entries:
            self._tell_row(entry.after and entry.after.id, _entry(entry.before), _entry(entry.after))
        for recording in change.recordings:
            before, after = recording.before, recording.after
            self._tell_row(after and after.id, before and before.status.value, after and after.status.value)
        for row in change.new_messages:
            self.story.tell(self.world.clock, f"  committed: message {row.id} {row.message.event_type}")

    def _tell_row(self, id_: object, before: object, after: object) -> None:
        name = named(id_) if id_ is not None else "a row"  # type: ignore[arg-type] # an id of a row
        self.story.tell(self.world.clock, f"  committed: {name}: {before or 'new'} -> {after or 'gone'}")


def _provision(row: ProvisionRow | None) -> str | None:
    return None if row is None else f"{row.status} ({row.attempts})"


def _entry(row: RecordingFinalize | None) -> str | None:
    return None if row is None else f"{row.status.value} ({row.schedule.attempts})"
