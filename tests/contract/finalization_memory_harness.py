"""The memory adapter's harness for recordings."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from messenger_jobs.adapters.memory.clock import ManualClock
from messenger_jobs.adapters.memory.database import Transaction
from messenger_jobs.adapters.memory.finalization import MemoryFinalizationStore
from messenger_jobs.adapters.memory.schema import MessengerDatabase
from messenger_jobs.adapters.memory.table import Row, Table
from messenger_jobs.domain.call_recording import CallRecording

from tests.contract.finalization_harness import FinalizationHarness, Stored, Thing
from tests.contract.memory_harness import LOCK_TIMEOUT, let_everybody_run
from tests.support.builders import NOW


class MemoryFinalizationHarness(FinalizationHarness):
    def __init__(self) -> None:
        self.clock = ManualClock(NOW)
        self.database = MessengerDatabase(self.clock, lock_timeout=LOCK_TIMEOUT)
        self.store = MemoryFinalizationStore(self.database)
        self.other = MemoryFinalizationStore(self.database)

    @asynccontextmanager
    async def writing(self, *things: Thing) -> AsyncGenerator[None]:
        async with self.database.begin() as transaction:
            async with transaction.statement("write"):
                for thing in things:
                    if isinstance(thing, CallRecording):
                        await _put(transaction, self.database.recordings, thing)
                    else:
                        await _put(transaction, self.database.finalizations, thing)
            yield
            await transaction.commit()

    async def stored(self) -> Stored:
        database = self.database
        outbox = sorted(database.rows(database.outbox), key=lambda row: row.id)
        return Stored(
            recordings=sorted(database.rows(database.recordings), key=lambda row: row.id),
            entries=sorted(database.rows(database.finalizations), key=lambda row: row.id),
            messages=[row.message for row in outbox],
            notices=sorted(database.rows(database.realtime_outbox), key=lambda row: row.id),
        )

    async def until_blocked(self) -> None:
        await let_everybody_run()
        assert self.database.locks.waiting > 0

    async def pass_lock_timeout(self) -> None:
        self.clock.advance(LOCK_TIMEOUT)

    async def assert_nothing_left(self) -> None:
        assert (self.database.open_transactions, self.database.locks.held) == (0, 0)


async def _put(transaction: Transaction, table: Table[Row], row: Row) -> None:
    if not await transaction.update(table, row):
        await transaction.insert(table, row)
