"""The memory adapter's harness."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta

from messenger_jobs.adapters.memory.clock import ManualClock
from messenger_jobs.adapters.memory.database import Transaction
from messenger_jobs.adapters.memory.provision_rows import committed_provision, member_rows, provision_row
from messenger_jobs.adapters.memory.provisioning import MemoryProvisioningStore
from messenger_jobs.adapters.memory.schema import MessengerDatabase
from messenger_jobs.adapters.memory.table import Row, Table
from messenger_jobs.domain.chat import Chat, Participant
from messenger_jobs.domain.deal_chat_provision import DealChatProvision

from tests.contract.provisioning_harness import ProvisioningHarness, Stored, Thing, sorted_members
from tests.support.builders import NOW

LOCK_TIMEOUT = timedelta(seconds=5)


async def let_everybody_run() -> None:
    """Every task goes on until it waits for something else than its turn; more turns than any of them needs."""
    for _ in range(200):
        await asyncio.sleep(0)


class MemoryProvisioningHarness(ProvisioningHarness):
    def __init__(self) -> None:
        self.clock = ManualClock(NOW)
        self.database = MessengerDatabase(self.clock, lock_timeout=LOCK_TIMEOUT)
        self.store = MemoryProvisioningStore(self.database)
        self.other = MemoryProvisioningStore(self.database)

    @asynccontextmanager
    async def writing(self, *things: Thing) -> AsyncGenerator[None]:
        async with self.database.begin() as transaction:
            async with transaction.statement("write"):
                for thing in things:
                    await self._write(transaction, thing)
            yield
            await transaction.commit()

    async def stored(self) -> Stored:
        database = self.database
        ids = [row.id for row in database.rows(database.provisions)]
        provisions = [committed_provision(database, id) for id in sorted(ids)]
        return Stored(
            provisions=[sorted_members(provision) for provision in provisions if provision],
            chats=sorted(database.rows(database.chats), key=lambda row: row.id),
            participants=sorted(database.rows(database.participants), key=lambda row: row.id),
            feed=sorted(database.rows(database.chat_events), key=lambda row: row.id),
            messages=[row.message for row in sorted(database.rows(database.outbox), key=lambda row: row.id)],
        )

    async def until_blocked(self) -> None:
        await let_everybody_run()
        assert self.database.locks.waiting > 0

    async def pass_lock_timeout(self) -> None:
        self.clock.advance(LOCK_TIMEOUT)

    async def assert_nothing_left(self) -> None:
        assert (self.database.open_transactions, self.database.locks.held) == (0, 0)

    async def _write(self, transaction: Transaction, thing: Thing) -> None:
        match thing:
            case Chat():
                await _put(transaction, self.database.chats, thing)
            case Participant():
                await _put(transaction, self.database.participants, thing)
            case DealChatProvision():
                await _put(transaction, self.database.provisions, provision_row(thing))
                for member in member_rows(thing):
                    await _put(transaction, self.database.members, member)


async def _put(transaction: Transaction, table: Table[Row], row: Row) -> None:
    if not await transaction.update(table, row):
        await transaction.insert(table, row)
