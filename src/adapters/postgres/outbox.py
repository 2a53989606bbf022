"""Integration events in ``messenger.outbox_messages``."""

from __future__ import annotations

import json
from typing import Final, LiteralString

from attrs import frozen

from ...application.ports.outbox import OutboxMessage
from .connections import Connection
from .fetching import changed_rows_on

# The conflict can only be one of dedupe_key (ux_outbox_dedupe_key): a repeated event_id is an error.
_INSERT: Final[LiteralString] = """
insert into messenger.outbox_messages
    (event_id, topic, message_key, aggregate_type, aggregate_id, event_type, contract_version,
     payload, headers, occurred_at, dedupe_key)
values (%s, %s, %s, %s, %s, %s, %s, %s::jsonb, %s::jsonb, %s, %s)
on conflict (dedupe_key) where dedupe_key is not null do nothing
"""


@frozen
class PostgresOutbox:
    """Writes messages in the transaction that is open on the connection; a host may use it in its own."""

    _connection: Connection

    async def add(self, message: OutboxMessage) -> bool:
        """Store the message; False when its ``dedupe_key`` is there already.

        Waits for a concurrent transaction that is about to store the same key, at most for the lock time-out
        (`RowRolledBack`). Raises `DataRejected` for an ``event_id`` that is there already.
        """
        return await changed_rows_on(self._connection, _INSERT, message_values(message)) == 1


def message_values(message: OutboxMessage) -> tuple[object, ...]:
    """The message's columns, in the order of the table."""
    return (
        message.event_id,
        message.topic,
        message.message_key,
        message.aggregate_type,
        message.aggregate_id,
        message.event_type,
        message.contract_version,
        json.dumps(message.payload),
        json.dumps(message.headers),
        message.occurred_at,
        message.dedupe_key,
    )
