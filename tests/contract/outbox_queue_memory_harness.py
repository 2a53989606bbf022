"""The memory adapter's harness for the outbox queue."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from messenger_jobs.adapters.memory.clock import ManualClock
from messenger_jobs.adapters.memory.outbox_queue import MemoryOutboxQueue
from messenger_jobs.adapters.memory.schema import MessengerDatabase, OutboxRow

from tests.contract.memory_harness import LOCK_TIMEOUT, let_everybody_run
from tests.contract.outbox_queue_harness import OutboxQueueHarness
from tests.support.builders import NOW


class MemoryOutboxQueueHarness(OutboxQueueHarness):
    def __init__(self) -> None:
        self.clock = ManualClock(NOW)
        self.database = MessengerDatabase(self.clock, lock_timeout=LOCK_TIMEOUT)
        self.queue = MemoryOutboxQueue(self.database)
        self.other = MemoryOutboxQueue(self.database)

    @asynccontextmanager
    async def writing(self, *rows: OutboxRow) -> AsyncGenerator[None]:
        async with self.database.begin() as transaction:
            async with transaction.statement("write"):
                for row in rows:
                    if not await transaction.update(self.database.outbox, row):
                        await transaction.insert(self.database.outbox, row)
            yield
            await transaction.commit()

    async def stored(self) -> list[OutboxRow]:
        return sorted(self.database.rows(self.database.outbox), key=lambda row: row.id)

    async def until_blocked(self) -> None:
        await let_everybody_run()
        assert self.database.locks.waiting > 0

    async def pass_lock_timeout(self) -> None:
        self.clock.advance(LOCK_TIMEOUT)

    async def assert_nothing_left(self) -> None:
        assert (self.database.open_transactions, self.database.locks.held) == (0, 0)
