"""The SQL of recording finalization."""

from __future__ import annotations

from typing import Final, LiteralString

ENTRY_COLUMNS: Final[LiteralString] = """
    e.id, e.recording_id, e.session_kind, e.session_id, e.status, e.attempts, e.next_attempt_at, e.last_error,
    e.created_at, e.updated_at, e.version
"""

RECORDING_COLUMNS: Final[LiteralString] = """
    r.id, r.session_kind, r.session_id, r.session_ended_at, r.chat_id, r.deal_id, r.tenant_id, r.media_type, r.status,
    r.trigger, r.object_key, r.file_id, r.size_bytes, r.duration_seconds, r.format, r.failure_reason, r.started_at,
    r.ended_at, r.available_at, r.created_at, r.updated_at, r.version
"""

SNAPSHOT_OF: Final[LiteralString] = (
    "select "
    + ENTRY_COLUMNS
    + ","
    + RECORDING_COLUMNS
    + """,
    exists (
        select from messenger.outbox_messages o -- ux_outbox_dedupe_key
        where o.dedupe_key = 'call-recording-available:' || e.recording_id
    )
from {entries} left join messenger.call_recordings r on r.id = e.recording_id
"""
)

# The status is a literal, so that ix_rfa_due serves a generic plan too.
_DUE: Final[LiteralString] = """(
    select * from messenger.recording_finalize_attempts
    where status = 'Pending'
        and next_attempt_at <= %(as_of)s
        and (next_attempt_at, id) > (%(after_at)s, %(after_id)s)
    order by next_attempt_at, id
    limit %(limit)s
) e"""

CANDIDATES: Final[LiteralString] = SNAPSHOT_OF.replace("{entries}", _DUE) + "order by e.next_attempt_at, e.id"

SNAPSHOT: Final[LiteralString] = (
    SNAPSHOT_OF.replace("{entries}", "messenger.recording_finalize_attempts e") + "where e.id = %(entry_id)s"
)

LOCK_RECORDING: Final[LiteralString] = (
    "select "
    + RECORDING_COLUMNS
    + " from messenger.call_recordings r where r.id = %(recording_id)s for no key update"
)

_LOCK_ENTRY: Final[LiteralString] = (
    "select " + ENTRY_COLUMNS + " from messenger.recording_finalize_attempts e where "
)

LOCK_ENTRY_OF_RECORDING: Final[LiteralString] = (
    _LOCK_ENTRY + "e.recording_id = %(recording_id)s for no key update"
)

LOCK_ENTRY: Final[LiteralString] = _LOCK_ENTRY + "e.id = %(entry_id)s for no key update"

OPEN: Final[LiteralString] = """
insert into messenger.recording_finalize_attempts (id, recording_id, session_kind, session_id, status, attempts,
    next_attempt_at, last_error, created_at, updated_at, version)
values (%(entry_id)s, %(entry_recording_id)s, %(entry_session_kind)s, %(entry_session_id)s, %(entry_status)s,
    %(attempts)s, %(next_attempt_at)s, %(last_error)s, %(entry_created_at)s, %(entry_updated_at)s, %(entry_version)s)
on conflict on constraint ux_rfa_recording do nothing
"""

# What most steps are: a row of its own, guarded as in WRITE. A statement's parameters are what costs the client most.
WRITE_ENTRY: Final[LiteralString] = """
with entry as (
    select id from messenger.recording_finalize_attempts
    where id = %(entry_id)s and version = %(entry_version)s - 1 and status <> 'Done'
    for no key update skip locked
)
update messenger.recording_finalize_attempts e set
    status = %(entry_status)s, attempts = %(attempts)s, next_attempt_at = %(next_attempt_at)s,
    last_error = %(last_error)s, updated_at = %(entry_updated_at)s, version = %(entry_version)s
from entry where e.id = entry.id
"""

# Answers with `ready`, on which every part stands: it is empty unless each row that is to be written is there, free,
# not terminal, and exactly one version behind. A part whose id is null is not written. Clients are not told again of
# what an earlier message has told already.
WRITE: Final[LiteralString] = """
with entry as (
    select id from messenger.recording_finalize_attempts
    where id = %(entry_id)s::uuid and version = %(entry_version)s::bigint - 1 and status <> 'Done'
    for no key update skip locked
), recording as (
    select id from messenger.call_recordings
    where id = %(recording_id)s::uuid and version = %(recording_version)s::bigint - 1
        and status in ('Recording', 'Uploading')
    for no key update skip locked
), ready as (
    select where (%(entry_id)s::uuid is null or exists (select from entry))
        and (%(recording_id)s::uuid is null or exists (select from recording))
), written_entry as (
    update messenger.recording_finalize_attempts e set
        status = %(entry_status)s::text, attempts = %(attempts)s::integer,
        next_attempt_at = %(next_attempt_at)s::timestamptz, last_error = %(last_error)s::text,
        updated_at = %(entry_updated_at)s::timestamptz, version = %(entry_version)s::bigint
    from ready where e.id = %(entry_id)s::uuid
), written_recording as (
    update messenger.call_recordings r set
        status = %(recording_status)s::text, file_id = coalesce(%(file_id)s::uuid, file_id),
        size_bytes = coalesce(%(size_bytes)s::bigint, size_bytes), format = coalesce(%(format)s::text, format),
        duration_seconds = coalesce(%(duration_seconds)s::integer, duration_seconds),
        failure_reason = %(failure_reason)s::text, ended_at = %(ended_at)s::timestamptz,
        available_at = %(available_at)s::timestamptz, updated_at = %(recording_updated_at)s::timestamptz,
        version = %(recording_version)s::bigint
    from ready where r.id = %(recording_id)s::uuid
), message as (
    insert into messenger.outbox_messages (event_id, topic, message_key, aggregate_type, aggregate_id, event_type,
        contract_version, payload, headers, dedupe_key, occurred_at)
    select %(event_id)s::uuid, %(topic)s::text, %(message_key)s::text, %(aggregate_type)s::text,
        %(aggregate_id)s::text, %(event_type)s::text, %(contract_version)s::integer, %(payload)s::jsonb,
        %(headers)s::jsonb, %(dedupe_key)s::text, %(occurred_at)s::timestamptz
    from ready where %(event_id)s::uuid is not null
    on conflict (dedupe_key) where dedupe_key is not null do nothing
    returning id
), notice as (
    insert into messenger.realtime_outbox (id, kind, session_kind, session_id, reference_id, created_at)
    select %(notice_id)s::uuid, %(notice_kind)s::text, %(notice_session_kind)s::text, %(notice_session_id)s::uuid,
        %(reference_id)s::uuid, %(notice_created_at)s::timestamptz
    from ready
    where %(notice_id)s::uuid is not null and (%(event_id)s::uuid is null or exists (select from message))
)
select from ready
"""

# One sub-select an index: ix_rfa_due, ix_rfa_quarantined. 'Done' rows, nearly all of the table, are in neither.
BACKLOG: Final[LiteralString] = """
select pending.number, pending.due, quarantined.number, pending.oldest_created_at
from (
    select count(*) as number, count(*) filter (where next_attempt_at <= %(as_of)s) as due,
        min(created_at) filter (where created_at between '0001-01-02' and '9999-12-30') as oldest_created_at
    from messenger.recording_finalize_attempts where status = 'Pending'
) pending, (
    select count(*) as number from messenger.recording_finalize_attempts where status = 'Quarantined'
) quarantined
"""

QUARANTINED_IDS: Final[LiteralString] = """
select id from messenger.recording_finalize_attempts
where status = 'Quarantined' and (%(error)s::text is null or last_error = %(error)s::text)
order by created_at, id
"""
