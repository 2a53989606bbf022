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
        "whoever was told of a failed chat has a provision",
        "select o.aggregate_id from messenger.outbox_messages o"
        " left join messenger.deal_chat_provisions p on p.deal_id::text = o.aggregate_id"
        " where o.aggregate_type = 'DealChatProvision' and p.id is null and o.payload->>'status' = 'Failed'",
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
        "a provision's last error is a class and a code",
        "select id::text from messenger.deal_chat_provisions where last_error !~ '^[A-Za-z0-9_.-]+:[A-Za-z0-9_.-]+$'",
    ),
    Invariant(
        "an available recording is announced, or will be",
        "select r.id::text from messenger.call_recordings r"
        " left join messenger.recording_finalize_attempts e on e.recording_id = r.id"
        " where r.status = 'Available' and r.updated_at > %(since)s and e.status is distinct from 'Pending'"
        " and e.status is distinct from 'Quarantined' and not exists (select from messenger.outbox_messages o"
        " where o.dedupe_key = 'call-recording-available:' || r.id)",
    ),
    Invariant(
        "a recording is announced at most once",
        "select payload->>'recordingId' from messenger.outbox_messages where aggregate_type = 'CallRecording'"
        " group by payload->>'recordingId' having count(*) > 1",
    ),
    Invariant(
        "an announced recording is available, with that very file",
        "select o.payload->>'recordingId' from messenger.outbox_messages o"
        " left join messenger.call_recordings r on r.id = (o.payload->>'recordingId')::uuid"
        " where o.aggregate_type = 'CallRecording'"
        " and (r.status, r.file_id::text) is distinct from ('Available', o.payload->>'fileId')",
    ),
    Invariant(
        "clients were told of a lost recording, once, and only that",
        "select r.id::text from messenger.call_recordings r"
        " left join messenger.realtime_outbox n on n.reference_id = r.id"
        " where r.status = 'Failed' and r.failure_reason = 'Timeout' and r.updated_at > %(since)s"
        " group by r.id having count(n.id) <> 1 or bool_or(n.kind <> 'RecordingFailed')",
    ),
    Invariant(
        "clients were not told twice of a recording",
        "select reference_id::text from messenger.realtime_outbox group by reference_id, kind having count(*) > 1",
    ),
    Invariant(
        "a finalization that is done has a finished recording",
        "select e.id::text from messenger.recording_finalize_attempts e"
        " join messenger.call_recordings r on r.id = e.recording_id"
        " where e.status = 'Done' and r.status not in ('Available', 'Failed')",
    ),
    Invariant(
        "no finished recording is left open for ten minutes",
        "select e.id::text from messenger.recording_finalize_attempts e"
        " join messenger.call_recordings r on r.id = e.recording_id"
        " where e.status = 'Pending' and r.status in ('Available', 'Failed')"
        " and greatest(e.next_attempt_at, r.updated_at) < now() - interval '10 minutes'",
    ),
    Invariant(
        "no recording was looked for more often than allowed",
        "select id::text from messenger.recording_finalize_attempts where attempts > %(max_finalize_attempts)s",
    ),
    Invariant(
        "a finalization's last error is a class and a code",
        "select id::text from messenger.recording_finalize_attempts"
        " where last_error !~ '^[A-Za-z0-9_.-]+:[A-Za-z0-9_.-]+$'",
    ),
    Invariant(
        "a message says what its row says",
        "select id::text from messenger.outbox_messages where headers->>'event-id' <> event_id::text"
        " or headers->>'event-type' <> event_type or headers->>'contract-version' <> contract_version::text",
    ),
    Invariant(
        "no message carries a URL",
        "select id::text from messenger.outbox_messages where payload::text ~ '[a-z0-9+]://'"
        " or headers::text ~ '[a-z0-9+]://'",
    ),
)


async def audit(
    connection: AsyncConnection[Any],
    *,
    max_attempts: int,
    since: datetime,
    max_finalize_attempts: int | None = None,
) -> tuple[Finding, ...]:
    """Check every invariant in one read-only snapshot; nothing is changed or locked.

    Reads whole tables, for as long as that takes. ``since`` is how far back the outbox still holds published messages;
    ``max_finalize_attempts`` are those of recordings, where they are others. Raises psycopg's errors as they are.
    """
    parameters: Mapping[str, object] = {
        "max_attempts": max_attempts,
        "max_finalize_attempts": max_finalize_attempts or max_attempts,
        "since": since,
    }
    async with connection.transaction():
        await connection.execute("set transaction isolation level repeatable read read only")
        await connection.execute("set local statement_timeout = 0")
        return tuple([await _check(connection, invariant, parameters) for invariant in INVARIANTS])


async def _check(
    connection: AsyncConnection[Any], invariant: Invariant, parameters: Mapping[str, object]
) -> Finding:
    async with connection.cursor(row_factory=scalar_row) as cursor:
        await cursor.execute(invariant.violations, parameters)
        ids = [str(id_) for id_ in await cursor.fetchall()]
    return Finding(claim=invariant.claim, violations=len(ids), sample=tuple(ids[:SAMPLE_SIZE]))
