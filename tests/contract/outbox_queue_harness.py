"""What an adapter's test gives to the contract of `OutboxQueue`."""

from __future__ import annotations

from messenger_jobs.adapters.memory.schema import OutboxRow
from messenger_jobs.application.ports.outbox_queue import OutboxQueue

from tests.contract.store_harness import StoreHarness


class OutboxQueueHarness(StoreHarness[OutboxRow, list[OutboxRow]]):
    """See `StoreHarness`."""

    queue: OutboxQueue
    other: OutboxQueue

    async def row(self, id: int) -> OutboxRow:
        return next(row for row in await self.stored() if row.id == id)
