"""The outbox queue's statements, each a transaction of its own.

What is neither published nor dead stands in ``ix_outbox_unpublished``, what is published in ``ix_outbox_published`` by
its time, what is dead in ``ix_outbox_dead``: no statement meets more rows than it is about.
"""

from __future__ import annotations

from typing import Final, LiteralString

NEWEST_ID: Final[LiteralString] = """
select max(id) from messenger.outbox_messages where published_at is null and dead_at is null
"""

UNPUBLISHED: Final[LiteralString] = """
select id, event_id, topic, message_key, aggregate_type, aggregate_id, event_type, contract_version,
    payload::text, headers, occurred_at, dedupe_key, attempts
from messenger.outbox_messages
where published_at is null and dead_at is null and id > %(after_id)s and id <= %(up_to)s
order by id
limit %(limit)s
"""

# Locks in the order of ids, so that two relays with the same messages cannot wait for each other in a circle. Whoever
# comes second finds its rows not wanted any more, since the condition is checked again under the lock.
_LOCKED: Final[LiteralString] = """
locked as (
    select id from messenger.outbox_messages
    where id = any(%(ids)s::bigint[]) and published_at is null and dead_at is null
    order by id
    for no key update
)
"""

MARK_PUBLISHED: Final[LiteralString] = f"""
with {_LOCKED}, receipt as (
    select * from unnest(%(ids)s::bigint[], %(partitions)s::integer[], %(offsets)s::bigint[])
        as receipt (id, partition, "offset")
)
update messenger.outbox_messages as message
set published_at = %(at)s, published_partition = receipt.partition, published_offset = receipt."offset",
    last_error = null
from locked join receipt using (id)
where message.id = locked.id
"""

MARK_FAILED: Final[LiteralString] = f"""
with {_LOCKED}, failure as (
    select * from unnest(%(ids)s::bigint[], %(errors)s::text[], %(dead)s::boolean[]) as failure (id, error, dead)
)
update messenger.outbox_messages as message
set attempts = message.attempts + 1, last_error = failure.error,
    dead_at = case when failure.dead then %(at)s::timestamptz end
from locked join failure using (id)
where message.id = locked.id
"""

# Skips what somebody else prunes or audits at this moment: there is always a next time.
PRUNE: Final[LiteralString] = """
with old as (
    select id from messenger.outbox_messages
    where published_at < %(published_before)s
    order by published_at, id
    limit %(limit)s
    for update skip locked
)
delete from messenger.outbox_messages as message using old where message.id = old.id
"""

DEAD: Final[LiteralString] = """
select id, event_id::text, topic, message_key, attempts, last_error as error_code, dead_at
from messenger.outbox_messages
where dead_at is not null and id > %(after_id)s
order by id
limit %(limit)s
"""

REQUEUE: Final[LiteralString] = """
with locked as (
    select id from messenger.outbox_messages
    where id = any(%(ids)s::bigint[]) and dead_at is not null
    order by id
    for no key update
)
update messenger.outbox_messages as message
set attempts = 0, last_error = null, dead_at = null
from locked
where message.id = locked.id
returning message.id
"""

BACKLOG: Final[LiteralString] = """
select waiting.messages, dead.messages, waiting.oldest
from (
    select count(*) as messages,
        min(created_at) filter (where created_at between '0001-01-02' and '9999-12-30') as oldest
    from messenger.outbox_messages
    where published_at is null and dead_at is null
) as waiting, (
    select count(*) as messages from messenger.outbox_messages where dead_at is not null
) as dead
"""
