"""A process of the system: it can be slow, cancelled, stopped and killed, and every exchange is a place for that."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from attrs import define, field, frozen
from messenger_jobs.adapters.memory.clock import ManualClock
from messenger_jobs.adapters.memory.ids import SequentialIds
from messenger_jobs.adapters.memory.switch import Phase, Step
from messenger_jobs.adapters.memory.telemetry import MemoryTelemetry
from messenger_jobs.application.ports.errors import DataRejected, PortError
from messenger_jobs.application.stop_signal import StopSignal
from messenger_jobs.domain.evidence import Evidence

from tests.simulation.faults import EVIDENCE, MESSAGE_TROUBLE, Fault, Port, error_of, faults_at
from tests.simulation.world import World

COMMITTING: Final = frozenset(
    {"commit", "settle", "write", "mark published", "mark failed", "prune", "requeue"}
)
"""Exchanges after which something may be committed that was not before."""

Run = Callable[[], Coroutine[Any, Any, object]]
"""Begins one run of a process's application: a cycle, a message, a call."""


class ProcessKilled(BaseException):
    """What a dead process gets of every exchange; nothing it does has any effect any more."""


@define(eq=False)
class Gate:
    """An exchange that waits for the simulator to say how it goes on."""

    process: Process
    port: Port
    step: Step
    going_on: asyncio.Future[Fault | None]
    faults: tuple[Fault, ...]
    """What may happen here."""

    def describe(self) -> str:
        """As a story tells it."""
        answer = " (answer)" if self.step.phase is Phase.ANSWERED else ""
        return f"{self.step.operation}{answer}"


@define(eq=False)
class ShiftedClock:
    """See `Clock`: the clock of one machine, whose wall time somebody may set."""

    _true: ManualClock
    behind: timedelta = field(default=timedelta(0), init=False)

    def now(self) -> datetime:
        """See `Clock`."""
        return self._true.now() - self.behind

    def monotonic(self) -> float:
        """See `Clock`."""
        return self._true.monotonic()

    async def sleep(self, seconds: float) -> None:
        """See `Clock`."""
        await self._true.sleep(seconds)


@define
class Facts:
    """What one run of a process has done and was told; invariants are held against it."""

    interrupted: bool = False
    """It was cancelled or asked to stop: it must not start anything new."""
    started: set[UUID] = field(factory=set[UUID])
    """Rows that the cycle has had in hand."""
    places: set[object] = field(factory=set[object])
    """Where these rows stood in the order of rows."""
    counted: set[UUID] = field(factory=set[UUID])
    """Rows of which it has counted an attempt."""
    due: dict[UUID, object] = field(factory=dict[UUID, object])
    """Rows that were due when the cycle began, as they were then."""
    told: dict[str, list[Evidence]] = field(factory=dict[str, list[Evidence]])
    """What storage has said of each object."""
    may_begin: Callable[[], bool] = lambda: True
    """Whether the cycle goes on: else claims that wait to be looked for are given back."""
    rejections: int = 0
    unsettled: bool = False
    """The database failed it, or somebody else was faster: a claim may be given back, whatever storage has said."""
    lock_sure_until: float | None = None
    """By the last answer, the run lock is held at least until then; None while it is not known to be held."""


@define(eq=False)
class Process:
    """One process with its own connections; what runs in it is made anew whenever it starts."""

    name: str
    number: int
    world: World
    application: Callable[[Process], Run]
    clock: ShiftedClock = field(init=False)
    new_id: SequentialIds = field(init=False)
    stop: StopSignal = field(init=False)
    telemetry: MemoryTelemetry = field(init=False)
    facts: Facts = field(init=False)
    runs: int = field(default=0, init=False)
    """How many have begun."""
    task: asyncio.Task[object] | None = field(default=None, init=False)
    killed: bool = field(default=False, init=False)
    own_data_only: bool = field(default=False, init=False)
    """Whether what is being written comes from us alone."""
    _run: Run | None = field(default=None, init=False)
    _undoing: set[object] = field(factory=set[object], init=False)
    """Tasks whose last exchange was a return to a savepoint."""
    _losing: set[object] = field(factory=set[object], init=False)
    _answers: dict[object, Evidence] = field(factory=dict[object, Evidence], init=False)
    _troubles: dict[object, Fault] = field(factory=dict[object, Fault], init=False)

    def __attrs_post_init__(self) -> None:
        self.clock = ShiftedClock(self.world.clock)
        self.new_id = SequentialIds(self.number)

    @property
    def busy(self) -> bool:
        """Whether a run is under way."""
        return self.task is not None and not self.task.done()

    def start(self) -> None:
        """Begin a run; a process that was stopped or killed starts afresh, without any memory."""
        if self._run is None or self.killed or self.stop.requested:
            self.killed = False
            self.stop = StopSignal()
            self.telemetry = MemoryTelemetry()
            self._run = self.application(self)
        self.facts = Facts()
        self.runs += 1
        self.task = self.world.loop.create_task(self._run())

    def set_back(self, by: timedelta) -> None:
        """The machine's wall clock is corrected."""
        self.clock.behind += by

    def request_stop(self) -> None:
        """As SIGTERM does."""
        self.facts.interrupted = True
        self.stop.request()

    def cancel(self) -> None:
        """As a second signal, or a host, does."""
        if self.busy and self.task is not None:
            self.facts.interrupted = True
            self.task.cancel()

    def kill(self) -> None:
        """As SIGKILL does: memory is gone, and connections end."""
        self.killed = True
        for gate in self.world.gates:
            if gate.process is self and not gate.going_on.done():
                gate.going_on.set_exception(ProcessKilled())
        while self.busy and self.task is not None:
            self.task.cancel()
            self.world.loop.run_until_idle()

    def exchange(self, port: Port) -> Callable[[Step], Awaitable[None]]:
        """The switch of one port of this process."""
        return _Exchange(self, port)

    def evidence_instead(self) -> Evidence | None:
        """What storage is to say in the current task instead of the truth, once."""
        return self._answers.pop(self.world.loop.current_task(), None)

    def trouble_with_a_message(self) -> Fault | None:
        """What the broker is to say of the first message of the current task, once."""
        return self._troubles.pop(self.world.loop.current_task(), None)

    def expect_to_hold_the_lock(self, what: str) -> None:
        """Only who holds the run lock, by the last answer about it, may do that."""
        sure_until = self.facts.lock_sure_until
        if sure_until is None or self.world.clock.monotonic() >= sure_until:
            self.world.monitor.violate(7, "only the holder of the run lock goes on", what)

    async def pass_through(self, port: Port, step: Step) -> None:
        """Wait for the simulator, and suffer what it has decided."""
        try:
            await self._exchange(port, step)
        except PortError as error:
            if port is Port.DATABASE and not isinstance(error, DataRejected):
                self.facts.unsettled = True
            raise

    async def _exchange(self, port: Port, step: Step) -> None:
        if self.killed:
            raise ProcessKilled
        world = self.world
        if step.phase is Phase.ANSWERED:
            if step.operation in COMMITTING:
                world.observe(self)
            if self._losing and (task := world.loop.current_task()) in self._losing:
                self._losing.discard(task)
                raise error_of(Fault.UNAVAILABLE)
            if not world.slow_answers:
                return
        if world.healed:
            return
        own_data_only = self._has_undone() or self.own_data_only
        faults = faults_at(port, step, own_data_only=own_data_only)
        if step.operation == "roll back to savepoint":
            self._undoing.add(world.loop.current_task())
        gate = Gate(self, port, step, world.loop.create_future(), faults)
        world.gates.append(gate)
        world.on_gate(gate)
        try:
            fault = await gate.going_on
        finally:
            world.gates.remove(gate)
        if step.phase is Phase.SENT and (error := world.outage(port)) is not None:
            raise error
        if fault is not None:
            self._suffer(fault)

    def _has_undone(self) -> bool:
        """Whether the task was at a return to a savepoint before: what it writes then is our own word about that."""
        if not self._undoing:
            return False
        task = self.world.loop.current_task()
        undone = task in self._undoing
        self._undoing.discard(task)
        return undone

    def _suffer(self, fault: Fault) -> None:
        if fault is Fault.ANSWER_LOST:
            self._losing.add(self.world.loop.current_task())
        elif fault in EVIDENCE:
            self._answers[self.world.loop.current_task()] = EVIDENCE[fault]
        elif fault in MESSAGE_TROUBLE:
            self._troubles[self.world.loop.current_task()] = fault
        else:
            if fault is Fault.REJECTED:
                self.facts.rejections += 1
            raise error_of(fault)

    def outcome(self) -> str | None:
        """What is wrong with the way in which the last run ended, if anything is."""
        task = self.task
        if task is None or not task.done() or self.killed:
            return None
        if task.cancelled():
            return None if self.facts.interrupted else "was cancelled by nobody"
        error = task.exception()
        if error is not None and not isinstance(error, PortError | LookupError):
            return f"ended by {error!r}"
        return None


@frozen
class _Exchange:
    process: Process
    port: Port

    def __call__(self, step: Step) -> Awaitable[None]:
        return self.process.pass_through(self.port, step)
