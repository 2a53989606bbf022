"""Integration events in the memory database."""

from __future__ import annotations

import json

from attrs import evolve, frozen

from ...application.ports.outbox import OutboxMessage
from .database import Transaction
from .schema import MessengerDatabase, OutboxRow


@frozen
class MemoryOutbox:
    """Writes messages in an open transaction."""

    _database: MessengerDatabase
    _transaction: Transaction

    async def add(self, message: OutboxMessage) -> bool:
        """See `Outbox.add`. Waits for a concurrent transaction that is about to store the same key."""
        async with self._transaction.statement("add message"):
            return await insert_message(self._database, self._transaction, message)


async def insert_message(
    database: MessengerDatabase, transaction: Transaction, message: OutboxMessage
) -> bool:
    """Insert within a statement that is under way; False when the ``dedupe_key`` is there already."""
    row = OutboxRow(
        id=database.next_outbox_id(),
        # Copied as a server would: the caller's later changes are not ours. Raises TypeError for what is not JSON.
        message=evolve(
            message,
            payload=json.loads(json.dumps(message.payload)),
            headers=json.loads(json.dumps(message.headers)),
        ),
        created_at=database.clock.now(),
    )
    return await transaction.insert_unless_there(database.outbox, row, database.outbox_of_dedupe_key)
