"""Whatever happens to two relays, every message is published or parked, and the order of each key holds."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, assert_never

from attrs import define, field, frozen
from hypothesis import given
from hypothesis import strategies as st
from messenger_jobs.adapters.memory.switch import Phase, Step
from messenger_jobs.application.outbox_relay import OUTBOX_RELAY
from messenger_jobs.application.ports.errors import DatabaseUnavailable, Misconfigured, RowRolledBack
from messenger_jobs.application.ports.event_publisher import Event, NotPublished, Receipt, Unpublishable

from tests.support.outbox_rows import an_outbox_row
from tests.support.scripted_publisher import ScriptedPublisher, number_of
from tests.unit.application.cycles import ScriptedSwitch
from tests.unit.application.relays import OUTAGE, REFUSED, TOO_LARGE, RelayBench, settle

ERRORS = (
    DatabaseUnavailable("CONNECTION_LOST", "the connection to the database failed"),
    RowRolledBack("55P03", "the wait for a lock took too long"),
    Misconfigured("42501", "the database account lacks a permission"),
    ValueError("a defect"),
)
OPERATIONS = (
    "unpublished",
    "mark published",
    "mark failed",
    "acquire lock",
    "confirm lock",
    "release lock",
    "publish",
)


@frozen
class Commit:
    """Messages of one key; ``refusals`` is how often the broker fails for the first of them alone."""

    key: str
    messages: int
    refusals: int
    too_large: bool


@frozen
class Reserve:
    """A transaction takes an id for a message of a key of its own, and commits later, or at the end."""


@frozen
class CommitReserved:
    pass


@frozen
class Broker:
    up: bool


@frozen
class Fault:
    """The next time that this relay comes to this step."""

    relay: int
    operation: str
    phase: Phase
    happens: Any
    """An error, seconds for which the whole process hangs, or "the lock is lost"."""


@frozen
class Freeze:
    """A relay stands still wherever it is; its lock goes after a while, or at once."""

    relay: int
    lock_goes: bool


@frozen
class Thaw:
    relay: int


@frozen
class Crash:
    """A relay is gone for good, with all that it knew, and another one takes its place."""

    relay: int


@frozen
class PassTime:
    seconds: float


relays = st.integers(0, 1)
happenings = st.one_of(
    st.sampled_from(ERRORS), st.sampled_from([0.5, 31.0, 100.0]), st.just("the lock is lost")
)
steps = st.one_of(
    st.builds(Commit, st.sampled_from("abc"), st.integers(1, 5), st.integers(0, 3), st.booleans()),
    st.just(Reserve()),
    st.just(CommitReserved()),
    st.builds(Broker, st.booleans()),
    st.builds(Fault, relays, st.sampled_from(OPERATIONS), st.sampled_from(Phase), happenings),
    st.builds(Freeze, relays, st.booleans()),
    st.builds(Thaw, relays),
    st.builds(Crash, relays),
    st.builds(PassTime, st.sampled_from([0.0, 0.5, 1.0, 7.0, 40.0])),
)


Happening = Commit | Reserve | CommitReserved | Broker | Fault | Freeze | Thaw | Crash | PassTime


@define
class Process:
    """A switch that stands still while its process is frozen."""

    faults: ScriptedSwitch
    running: asyncio.Event = field(factory=asyncio.Event)

    async def __call__(self, step: Step) -> None:
        await self.running.wait()
        await self.faults(step)
        await self.running.wait()


@define(eq=False)
class SwitchedPublisher:
    """The broker as one relay reaches it."""

    broker: ScriptedPublisher
    process: Process
    given_out: list[tuple[int, Receipt]]

    async def publish(self, events: Sequence[Event]) -> Sequence[Receipt]:
        await self.process(Step("publish", Phase.SENT))
        receipts = await self.broker.publish(events)
        self.given_out.extend(zip(map(number_of, events), receipts, strict=True))
        await self.process(Step("publish", Phase.ANSWERED))
        return receipts


@define
class World:
    bench: RelayBench = field(factory=lambda: RelayBench(batch_size=3, turns=40))
    key_of: dict[int, str] = field(factory=dict[int, str])
    reserved: list[int] = field(factory=list[int])
    given_out: list[tuple[int, Receipt]] = field(factory=list[tuple[int, Receipt]])
    tasks: list[asyncio.Task[None]] = field(factory=list[asyncio.Task[None]])
    processes: list[Process] = field(factory=list[Process])

    def start(self) -> None:
        for _ in range(2):
            self.processes.append(self._new_process())

    def _new_process(self) -> Process:
        other = RelayBench(batch_size=3, clock=self.bench.clock)
        other.database, other.server, other.stop = self.bench.database, self.bench.server, self.bench.stop
        process = Process(ScriptedSwitch())
        process.running.set()
        other.switch = other.lock_switch = process  # type: ignore[assignment]  # only called
        publisher = SwitchedPublisher(self.bench.publisher, process, self.given_out)
        self.tasks.append(asyncio.create_task(other.a_relay(publisher=publisher).run(other.stop)))
        return process

    def _next_id(self) -> int:
        return len(self.key_of) + 1

    async def perform(self, step: Happening) -> None:
        match step:
            case Commit():
                self._commit(step)
            case Reserve():
                number = self._next_id()
                self.key_of[number] = f"own {number}"
                self.reserved.append(number)
            case CommitReserved():
                self.commit_reserved()
            case Broker():
                self.bench.publisher.every = None if step.up else OUTAGE
            case Fault() | Freeze() | Thaw() | Crash():
                self._strike(step)
            case PassTime():
                await self.bench.pass_time(step.seconds)
            case _:
                assert_never(step)
        await settle(5)

    def _strike(self, step: Fault | Freeze | Thaw | Crash) -> None:
        process = self.processes[step.relay]
        match step:
            case Fault():
                process.faults.at(step.operation, step.phase, self._action(step.happens))
            case Freeze():
                process.running.clear()
                if step.lock_goes:
                    self.bench.server.end_session(OUTBOX_RELAY)
            case Thaw():
                process.running.set()
            case Crash():
                process.running.clear()
                self.bench.server.end_session(OUTBOX_RELAY)
                self.processes[step.relay] = self._new_process()

    def _action(self, happens: Any) -> Any:
        if isinstance(happens, float):
            return lambda: self.bench.clock.advance(timedelta(seconds=happens))
        if isinstance(happens, str):
            return lambda: self.bench.server.end_session(OUTBOX_RELAY)
        return happens

    def _commit(self, step: Commit) -> None:
        for index in range(step.messages):
            number = self._next_id()
            self.key_of[number] = step.key
            if index == 0:
                self.bench.publisher.answers[number] = [REFUSED] * step.refusals
                if step.too_large:
                    self.bench.publisher.answers[number] += [TOO_LARGE] * 100
            self.bench.commit(number, key=step.key)

    def commit_reserved(self) -> None:
        for number in self.reserved:
            self.bench.put(an_outbox_row(number, message_key=self.key_of[number]))
        self.reserved.clear()

    async def heal(self) -> None:
        """Nothing fails any more, and everybody who is there goes on."""
        self.bench.publisher.every = None
        for process in self.processes:
            process.faults.script.clear()
            process.running.set()
        self.commit_reserved()
        await self.bench.pass_time(120)

    async def end(self) -> None:
        self.bench.stop.request()
        await settle()
        for task in self.tasks:
            while not task.done():  # a crashed one still waits for its frozen ports, one after the other
                task.cancel()
                await settle(5)


def check(world: World) -> None:
    rows, log = world.bench.rows(), world.bench.publisher.log
    refused, too_large = Counter[int](), Counter[int]()
    acknowledged = defaultdict[int, set[tuple[Any, Any]]](set)
    for number, receipt in world.given_out:
        match receipt:
            case NotPublished(outage=False):
                refused[number] += 1
            case Unpublishable():
                too_large[number] += 1
            case NotPublished():
                pass
            case published:
                acknowledged[number].add((published.partition, published.offset))
    for number, row in rows.items():
        if row.dead_at is None:
            assert row.published_at is not None, f"message {number} was never published"
            assert (row.published_partition, row.published_offset) in acknowledged[number]
            assert row.attempts <= refused[number]
        else:
            assert too_large[number] > 0, f"message {number} was parked without a reason"
            assert number not in log
            assert row.attempts <= refused[number] + too_large[number]
    first_occurrences = list(dict.fromkeys(log))
    for key in set(world.key_of.values()):
        of_key = [number for number in first_occurrences if world.key_of[number] == key]
        assert of_key == sorted(of_key), f"messages of {key} out of order"


async def live_through(history: list[Happening]) -> None:
    world = World()
    try:
        world.start()
        for step in history:
            await world.perform(step)
        await world.heal()
        check(world)
    finally:
        await world.end()
    assert not any(task.exception() for task in world.tasks if not task.cancelled())
    assert world.bench.server.held == []
    assert world.bench.database.open_transactions == 0


@given(st.lists(steps, max_size=25))
def test_every_message_is_published_or_parked_and_every_key_stays_in_order(history: list[Happening]) -> None:
    asyncio.run(live_through(history))
