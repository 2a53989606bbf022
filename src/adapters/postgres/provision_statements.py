"""The SQL of deal chat provisioning."""

from __future__ import annotations

from typing import Final, LiteralString

from psycopg.sql import SQL, Composed, Literal

PROVISION_COLUMNS: Final[LiteralString] = """
    p.id, p.deal_id, p.chat_id, p.title, p.project_id, p.deal_tenant_id, p.status, p.attempts, p.next_attempt_at,
    p.last_error, p.created_at, p.updated_at, p.version
"""

# The whole selection rule, asked of a row that is known by its id; its twin is `DealChatProvision.is_due`. The status
# stands in a `case`, since that implies no partial index: a plan made while ix_dcp_due is empty would look the id up
# there, and go on reading all of it for every row once much is due (775 buffers instead of 4 with 100,000 rows).
DUE: Final[LiteralString] = """
    p.attempts < %(max_attempts)s
    and p.next_attempt_at <= %(as_of)s
    and case p.status when 'Failed' then true when 'Provisioning' then p.updated_at <= %(stuck_since)s else false end
"""

# One branch for each allowed number of attempts: every branch is one ordered run of ix_dcp_due, a Merge Append takes
# the earliest of them, and rows whose attempts are used up are never met. Statuses are literals: as parameters, a
# generic plan would not use the partial index.
_CANDIDATES_AT_ATTEMPTS: Final[LiteralString] = (
    "(select "
    + PROVISION_COLUMNS
    + """
    from messenger.deal_chat_provisions p
    where p.status <> 'Ready'
        and p.attempts = {attempts}
        and p.next_attempt_at <= %(as_of)s
        and (p.next_attempt_at, p.id) > (%(after_at)s, %(after_id)s)
        and (p.status = 'Failed' or p.updated_at <= %(stuck_since)s)
    order by p.next_attempt_at, p.id
    limit %(limit)s)
"""
)


def candidates(max_attempts: int) -> Composed:
    """The candidate query for rows with fewer than ``max_attempts`` attempts, in the order of schedule and id."""
    branches = [SQL(_CANDIDATES_AT_ATTEMPTS).format(attempts=Literal(level)) for level in range(max_attempts)]
    if len(branches) == 1:  # is ordered and limited already, and would not take a second time
        return branches[0]
    return SQL(" union all ").join(branches) + SQL(" order by next_attempt_at, id limit %(limit)s")


# Everything that the decisions about a batch need, one row a provision, without locks.
CONTEXT: Final[LiteralString] = """
select p.id, members.user_ids, members.roles,
    c.id, c.kind, c.status, c.deal_id, c.title, c.project_id, c.deal_tenant_id, c.created_at, c.updated_at, c.version,
    participants.ids, participants.user_ids, participants.roles, participants.joined_at, participants.left_at
from messenger.deal_chat_provisions p
    left join messenger.chats c on c.deal_id = p.deal_id
    left join lateral (
        select array_agg(m.user_id) as user_ids, array_agg(m.role) as roles
        from messenger.deal_chat_provision_members m where m.provision_id = p.id
    ) members on true
    left join lateral (
        select array_agg(a.id) as ids, array_agg(a.user_id) as user_ids, array_agg(a.role) as roles,
            array_agg(a.joined_at) as joined_at, array_agg(a.left_at) as left_at
        from messenger.participants a where a.chat_id = c.id
    ) participants on true
where p.id = any(%(ids)s)
"""

_LOCK_BY_VERSION: Final[LiteralString] = """
with locked as (
    select p.id from messenger.deal_chat_provisions p
    where p.id = %(id)s and p.version = %(version)s - 1
        and case p.status when 'Ready' then false else true end -- as in `DUE`
    for no key update skip locked
)"""

_LOCK_IF_DUE: Final[LiteralString] = (
    """
with locked as (
    select p.id from messenger.deal_chat_provisions p
    where p.id = %(id)s and p.version = %(version)s - 1 and """
    + DUE
    + """
    for no key update skip locked
)"""
)

# Every part stands on `ready`, which is empty when the row, or the chat that was decided on, is not as it was seen.
# Participants are additive: somebody who is present by now stays as they are.
_WRITE: Final[LiteralString] = """
, seen_chat as (
    select c.id from messenger.chats c
    where c.id = %(seen_chat_id)s::uuid and c.version = %(seen_chat_version)s
        and c.kind = %(seen_chat_kind)s and c.status = %(seen_chat_status)s
    for share -- nobody archives it before this commits
), ready as (
    select id from locked where %(seen_chat_id)s::uuid is null or exists (select from seen_chat)
), new_chat as (
    insert into messenger.chats (id, kind, status, deal_id, title, project_id, deal_tenant_id, created_at, updated_at,
        version)
    select %(chat_id)s::uuid, %(chat_kind)s::text, %(chat_status)s::text, %(deal_id)s::uuid, %(chat_title)s::text,
        %(project_id)s::uuid, %(deal_tenant_id)s::uuid, %(updated_at)s::timestamptz, %(updated_at)s::timestamptz, 0
    from ready where %(creates_chat)s::boolean
), entry as (
    insert into messenger.chat_events (id, chat_id, type, actor, occurred_at, data)
    select %(entry_id)s::uuid, %(chat_id)s::uuid, %(entry_type)s::text, %(entry_actor)s::text,
        %(updated_at)s::timestamptz, %(entry_data)s::jsonb
    from ready where %(creates_chat)s::boolean
), participant as (
    insert into messenger.participants as a (id, chat_id, user_id, role, joined_at)
    select joining.id, %(chat_id)s::uuid, joining.user_id, joining.role, joining.joined_at
    from ready, jsonb_to_recordset(%(participants)s::jsonb) -- for the client, arrays cost twice as much as all the rest
        as joining (id uuid, user_id uuid, role text, joined_at timestamptz)
    on conflict (chat_id, user_id) do update set left_at = null, role = excluded.role where a.left_at is not null
), message as (
    insert into messenger.outbox_messages (event_id, topic, message_key, aggregate_type, aggregate_id, event_type,
        contract_version, payload, headers, occurred_at)
    select %(event_id)s::uuid, %(topic)s::text, %(message_key)s::text, %(aggregate_type)s::text,
        %(aggregate_id)s::text, %(event_type)s::text, %(contract_version)s::int, %(payload)s::jsonb,
        %(headers)s::jsonb, %(occurred_at)s::timestamptz
    from ready where %(event_id)s::uuid is not null
)
update messenger.deal_chat_provisions p
set status = %(status)s, chat_id = %(provision_chat_id)s, attempts = %(attempts)s,
    next_attempt_at = %(next_attempt_at)s, last_error = %(last_error)s, updated_at = %(updated_at)s,
    version = %(version)s
from ready where p.id = ready.id
"""

SETTLE_IF_DUE: Final[LiteralString] = _LOCK_IF_DUE + _WRITE
"""One attempt's whole outcome, as a transaction of its own; no row updated means that nothing was written."""

SETTLE: Final[LiteralString] = _LOCK_BY_VERSION + _WRITE
"""The same for a row that the surrounding transaction has locked and checked."""

CLAIM: Final[LiteralString] = (
    "select "
    + PROVISION_COLUMNS
    + " from messenger.deal_chat_provisions p where p.id = %(id)s and "
    + DUE
    + " for no key update skip locked"
)

LOCK: Final[LiteralString] = (
    "select "
    + PROVISION_COLUMNS
    + " from messenger.deal_chat_provisions p where p.id = %(id)s for no key update"
)

# Waits for a concurrent transaction that is about to insert the same deal; a row only if this one inserts it.
INTEND: Final[LiteralString] = """
with intent as (
    insert into messenger.deal_chat_provisions (id, deal_id, title, project_id, deal_tenant_id, status, attempts,
        next_attempt_at, created_at, updated_at, version)
    values (%(id)s, %(deal_id)s, %(title)s, %(project_id)s, %(deal_tenant_id)s, %(status)s, %(attempts)s,
        %(next_attempt_at)s, %(created_at)s, %(updated_at)s, %(version)s)
    on conflict (deal_id) do nothing
    returning id
), member as (
    insert into messenger.deal_chat_provision_members (provision_id, user_id, role)
    select intent.id, named.user_id, named.role
    from intent, jsonb_to_recordset(%(members)s::jsonb) as named (user_id uuid, role text)
)
select id from intent
"""

LOCK_OF_DEAL: Final[LiteralString] = (
    "select "
    + PROVISION_COLUMNS
    + " from messenger.deal_chat_provisions p where p.deal_id = %(deal_id)s for no key update"
)

REQUEUE: Final[LiteralString] = """
update messenger.deal_chat_provisions
set attempts = %(attempts)s, next_attempt_at = %(next_attempt_at)s, version = %(version)s
where id = %(id)s and version = %(version)s - 1 and case status when 'Ready' then false else true end -- as in `DUE`
"""

# Reads ix_dcp_due only: 'Ready' rows, nearly all of the table, are not in it.
BACKLOG: Final[LiteralString] = """
select
    count(*) filter (where stuck),
    count(*) filter (where stuck and attempts < %(max_attempts)s and next_attempt_at <= %(as_of)s),
    count(*) filter (where attempts < %(max_attempts)s and not (stuck and next_attempt_at <= %(as_of)s)),
    count(*) filter (where stuck and attempts >= %(max_attempts)s),
    min(created_at) filter (where stuck and created_at between '0001-01-02' and '9999-12-30')
from (
    select attempts, next_attempt_at, created_at, status = 'Failed' or updated_at <= %(stuck_since)s as stuck
    from messenger.deal_chat_provisions where status <> 'Ready'
) unfinished
"""

POISON_IDS: Final[LiteralString] = """
select id from messenger.deal_chat_provisions
where status <> 'Ready' and attempts >= %(max_attempts)s and (%(error)s::text is null or last_error = %(error)s)
order by created_at, id
"""
