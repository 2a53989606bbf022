"""A host that has an outbox already: events go to its table, in the same transactions, and its own relay sends them."""

from __future__ import annotations

import json
from typing import Final, LiteralString

from attrs import frozen
from messenger_jobs.adapters.postgres import (
    Connection,
    Connections,
    PostgresProvisioningStore,
    TranslatedErrors,
)
from messenger_jobs.application import ChatProvisionRetry, ProvisionDealChat
from messenger_jobs.application.ports import OutboxMessage

TABLE: Final[LiteralString] = """
create table host_events (
    id         uuid primary key,
    topic      text not null,
    key        text not null,
    body       jsonb not null,
    dedupe_key text unique
)
"""

INSERT: Final[LiteralString] = """
insert into host_events (id, topic, key, body, dedupe_key) values (%s, %s, %s, %s, %s)
on conflict (dedupe_key) do nothing
"""


@frozen
class HostOutbox:
    """See `Outbox`: writes in the transaction that is open on the connection, and commits nothing itself."""

    connection: Connection

    async def add(self, message: OutboxMessage) -> bool:
        """Store the message; False when its ``dedupe_key`` is there already."""
        body = json.dumps({"type": message.event_type, "payload": message.payload})
        with TranslatedErrors():  # the jobs know the ports' errors, and no driver's
            cursor = await self.connection.execute(
                INSERT, (message.event_id, message.topic, message.message_key, body, message.dedupe_key)
            )
        return cursor.rowcount == 1


def chat_job(connections: Connections, provisioning: ProvisionDealChat) -> ChatProvisionRetry:
    """The job as usual, on stores that have been told of the host's outbox."""
    store = PostgresProvisioningStore(connections, outbox=HostOutbox)
    return ChatProvisionRetry(store=store, provisioning=provisioning)
