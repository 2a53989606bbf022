"""Everything that a relay needs, in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Any

from attrs import define, field
from messenger_jobs.adapters.memory.clock import ManualClock
from messenger_jobs.adapters.memory.outbox_queue import MemoryOutboxQueue
from messenger_jobs.adapters.memory.relay_telemetry import MemoryRelayTelemetry
from messenger_jobs.adapters.memory.run_locks import MemoryRunLocks, RunLockServer
from messenger_jobs.adapters.memory.schema import MessengerDatabase, OutboxRow
from messenger_jobs.application.options import OutboxRelayOptions
from messenger_jobs.application.outbox_relay import OUTBOX_RELAY, OutboxRelay
from messenger_jobs.application.ports.event_publisher import NotPublished, Unpublishable
from messenger_jobs.application.relay_report import RelayReport
from messenger_jobs.application.stop_signal import StopSignal

from tests.support.builders import NOW, ids_from
from tests.support.outbox_rows import an_outbox_row
from tests.support.scripted_publisher import ScriptedPublisher
from tests.unit.application.cycles import ScriptedSwitch

REFUSED = NotPublished(code="Kafka:UNKNOWN_TOPIC", outage=False)
OUTAGE = NotPublished(code="Kafka:UNREACHABLE", outage=True)
TOO_LARGE = Unpublishable(code="Kafka:MESSAGE_TOO_LARGE")


async def settle(turns: int = 100) -> None:
    """Every task goes on until it waits for the clock; more turns than a pass of a few batches needs."""
    for _ in range(turns):
        await asyncio.sleep(0)


@define
class RelayBench:
    """One replica with its clock, database, broker, locks, telemetry and stop signal; `replica` makes another one."""

    batch_size: int = 500
    turns: int = 100
    """Of every task, between two moments of `pass_time`."""
    clock: ManualClock = field(factory=lambda: ManualClock(NOW))
    telemetry: MemoryRelayTelemetry = field(factory=MemoryRelayTelemetry)
    stop: StopSignal = field(factory=StopSignal)
    switch: ScriptedSwitch = field(factory=ScriptedSwitch)
    lock_switch: ScriptedSwitch = field(factory=ScriptedSwitch)
    publisher: ScriptedPublisher = field(factory=ScriptedPublisher)
    beats: list[float] = field(factory=list[float])
    database: MessengerDatabase = field(init=False)
    server: RunLockServer = field(init=False)
    relay: OutboxRelay = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.database = MessengerDatabase(self.clock)
        self.server = RunLockServer(self.clock, OutboxRelayOptions().lock_ttl)
        self.relay = self.a_relay()

    def a_relay(self, **changes: Any) -> OutboxRelay:
        parts: dict[str, Any] = {
            "queue": MemoryOutboxQueue(self.database, switch=self.switch),
            "publisher": self.publisher,
            "locks": MemoryRunLocks(self.server, self.clock, switch=self.lock_switch),
            "clock": self.clock,
            "telemetry": self.telemetry,
            "options": OutboxRelayOptions(batch_size=self.batch_size),
            "new_id": ids_from(),
            "spread": lambda: 0.0,
        }
        return OutboxRelay(**parts | changes)

    def replica(self) -> RelayBench:
        """Another process on the same database, lock server and broker."""
        other = RelayBench(clock=self.clock, publisher=self.publisher)
        other.database, other.server = self.database, self.server
        other.relay = other.a_relay()
        return other

    def put(self, *rows: OutboxRow) -> None:
        self.database.put(self.database.outbox, *rows)

    def commit(self, *numbers: int, key: str | None = None) -> None:
        """Messages by number, each of a key of its own unless one is given."""
        changes = {} if key is None else {"message_key": key}
        self.put(*(an_outbox_row(number, created_at=self.clock.now(), **changes) for number in numbers))

    async def run_once(self) -> RelayReport:
        return await self.relay.run_once(self.stop)

    def rows(self) -> dict[int, OutboxRow]:
        return {row.id: row for row in self.database.rows(self.database.outbox)}

    def row(self, number: int) -> OutboxRow:
        return self.rows()[number]

    @property
    def published(self) -> list[int]:
        return sorted(id for id, row in self.rows().items() if row.published_at is not None)

    @property
    def unpublished(self) -> list[int]:
        return sorted(
            id for id, row in self.rows().items() if row.published_at is None and row.dead_at is None
        )

    @property
    def dead(self) -> list[int]:
        return sorted(id for id, row in self.rows().items() if row.dead_at is not None)

    def passing(self, time: timedelta) -> Callable[[], None]:
        """An action that takes this long."""
        return lambda: self.clock.advance(time)

    async def pass_time(self, seconds: float) -> None:
        """Time passes from one sleeper to the next, and everybody acts at their time."""
        end = self.clock.monotonic() + seconds
        await settle(self.turns)
        while (
            wait := self.clock.time_to_next
        ) is not None and self.clock.monotonic() + wait.total_seconds() <= end:
            self.clock.advance(wait)
            await settle(self.turns)
        self.clock.advance(timedelta(seconds=max(0.0, end - self.clock.monotonic())))
        await settle(self.turns)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[asyncio.Task[None]]:
        """The worker's loop, cancelled at the end unless it has ended."""
        loop = self.relay.run(self.stop, beat=lambda: self.beats.append(self.clock.monotonic()))
        task = asyncio.create_task(loop)
        await settle()
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.wait({task})

    @asynccontextmanager
    async def locked_by_another(self, locked: bool = True) -> AsyncGenerator[None]:
        """Somebody else holds the lock, if ``locked``."""
        async with AsyncExitStack() as somebody_else:
            if locked:
                locks = MemoryRunLocks(self.server, self.clock)
                assert await somebody_else.enter_async_context(locks.try_acquire(OUTBOX_RELAY))
            yield

    def lock_steps(self, operation: str) -> int:
        """How often the lock's server was asked for this."""
        return sum(step.operation == operation for step in self.lock_switch.steps) // 2
