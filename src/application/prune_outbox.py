"""Messages published long enough ago are deleted."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from attrs import frozen

from .ports.clock import Clock
from .ports.outbox_queue import OutboxQueue

PRUNE_BATCH: Final = 1000
"""Messages deleted by one transaction at most."""


@frozen(kw_only=True)
class PruneOutbox:
    """Deletes messages published more than ``retention`` ago; parked and unpublished ones stay. Harmless to repeat."""

    queue: OutboxQueue
    clock: Clock
    retention: timedelta

    async def batch(self) -> int:
        """One batch, a transaction of its own; fewer than `PRUNE_BATCH` means that nothing more is old enough."""
        before = self.clock.now() - self.retention
        return await self.queue.prune(published_before=before, limit=PRUNE_BATCH)

    async def all(self) -> int:
        """Batch by batch until nothing more is old enough; the number deleted. What is deleted stays so on an error."""
        pruned = batch = await self.batch()
        while batch == PRUNE_BATCH:
            batch = await self.batch()
            pruned += batch
        return pruned
