"""Holds a database against what must never happen: each invariant as one read-only query for its violations."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, LiteralString

from attrs import field, frozen
from psycopg import AsyncConnection
from psycopg.rows import scalar_row

SAMPLE_SIZE: Final = 5


@frozen
class Invariant:
    """A sentence that must hold, and the query for the ids that break it."""

    claim: str
    violations: LiteralString


@frozen(kw_only=True)
class Finding:
    """What one invariant came to: ``violations`` counts, ``sample`` names a few ids."""

    claim: str
    violations: int
    sample: tuple[str, ...] = field(factory=tuple[str, ...])


# Published messages are pruned after the retention: only rows that changed since then can be held against the outbox.
INVARIANTS: Final[tuple[Invariant, ...]] = (
    Invariant(
        "a deal has at most one chat",
        "select deal_id::text from messenger.chats where deal_id is not null group by deal_id having count(*) > 1",
    ),
    Invariant(
        "a chat tells of its provisioning at most once",
        "select chat_id::text from messenger.chat_events where type = 'DealChatProvisioned'"
        " group by chat_id having count(*) > 1",
    ),
    Invariant(
        "a ready provision has its deal's chat",
        "select p.id::text from messenger.deal_chat_provisions p left join messenger.chats c on c.id = p.chat_id"
        " where p.status = 'Ready' and c.deal_id is distinct from p.deal_id",
    ),
    Invariant(
        "every member of a ready provision is, or was, in its chat",
        "select p.id::text from messenger.deal_chat_provisions p"
        " join messenger.deal_chat_provision_members m on m.provision_id = p.id"
        " where p.status = 'Ready' and not exists (select from messenger.participants a"
        " where a.chat_id = p.chat_id and a.user_id = m.user_id)",
    ),
    Invariant(
        "a ready provision has told so, once",
        "select p.id::text from messenger.deal_chat_provisions p"
        " left join messenger.outbox_messages o on o.aggregate_type = 'DealChatProvision'"
        " and o.aggregate_id = p.deal_id::text and o.payload->>'status' = 'Ready'"
        " where p.status = 'Ready' and p.updated_at > %(since)s group by p.id having count(o.id) <> 1",
    ),
    Invariant(
        "a provision whose attempts are used up has told so",
        "select p.id::text from messenger.deal_chat_provisions p where p.status = 'Failed'"
        " and p.attempts >= %(max_attempts)s and p.updated_at > %(since)s"
        " and not exists (select from messenger.outbox_messages o where o.aggregate_type = 'DealChatProvision'"
        " and o.aggregate_id = p.deal_id::text and o.payload->>'status' = 'Failed')",
    ),
    Invariant(
        "whoever was told of a ready chat has one",
        "select o.aggregate_id from messenger.outbox_messages o"
        " left join messenger.deal_chat_provisions p on p.deal_id::text = o.aggregate_id"
        " where o.aggregate_type = 'DealChatProvision' and o.payload->>'status' = 'Ready'"
        " and p.status is distinct from 'Ready'",
    ),
    Invariant(
        "nobody is told of a failure after the chat is ready",
        "select f.aggregate_id from messenger.outbox_messages f join messenger.outbox_messages r"
        " on r.aggregate_type = f.aggregate_type and r.aggregate_id = f.aggregate_id and r.id < f.id"
        " where f.aggregate_type = 'DealChatProvision' and f.payload->>'status' = 'Failed'"
        " and r.payload->>'status' = 'Ready'",
    ),
    Invariant(
        "no provision was tried more often than allowed",
        "select id::text from messenger.deal_chat_provisions where attempts > %(max_attempts)s",
    ),
    Invariant(
        "a last error is a class and a code, nothing else",
        "select id::text from messenger.deal_chat_provisions where last_error !~ '^[A-Za-z0-9_.-]+:[A-Za-z0-9_.-]+$'",
    ),
    Invariant(
        "a message says what its row says",
        "select id::text from messenger.outbox_messages where headers->>'event-id' <> event_id::text"
        " or headers->>'event-type' <> event_type or headers->>'contract-version' <> contract_version::text",
    ),
)


async def audit(
    connection: AsyncConnection[Any], *, max_attempts: int, since: datetime
) -> tuple[Finding, ...]:
    """Check every invariant in one read-only snapshot; nothing is changed or locked.

    ``since`` is how far back the outbox still holds published messages. Raises psycopg's errors as they are.
    """
    parameters: Mapping[str, object] = {"max_attempts": max_attempts, "since": since}
    async with connection.transaction():
        await connection.execute("set transaction isolation level repeatable read read only")
        return tuple([await _check(connection, invariant, parameters) for invariant in INVARIANTS])


async def _check(
    connection: AsyncConnection[Any], invariant: Invariant, parameters: Mapping[str, object]
) -> Finding:
    async with connection.cursor(row_factory=scalar_row) as cursor:
        await cursor.execute(invariant.violations, parameters)
        ids = [str(id_) for id_ in await cursor.fetchall()]
    return Finding(claim=invariant.claim, violations=len(ids), sample=tuple(ids[:SAMPLE_SIZE]))
