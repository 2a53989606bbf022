"""The SQL of looking at deal chat provisions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, LiteralString

from psycopg.sql import SQL, Composed, Literal

from ...application.options import MAX_ATTEMPTS_BOUND
from ...application.ports.row_summary import RowState
from .provision_statements import DUE, PROVISION_COLUMNS

_SUMMARY_COLUMNS: Final[LiteralString] = """
    p.id, p.deal_id, p.chat_id, p.status, p.attempts, p.next_attempt_at, p.last_error, p.created_at, p.updated_at
"""

# As for the candidates: every branch is one ordered run of ix_dcp_due, and a Merge Append takes the earliest of them.
_AT_ATTEMPTS: Final[LiteralString] = (
    "(select "
    + _SUMMARY_COLUMNS
    + """
    from messenger.deal_chat_provisions p
    where p.status <> 'Ready' and p.attempts {attempts}
        and (p.next_attempt_at, p.id) > (%(after_at)s, %(after_id)s)
        and {state}
    order by p.next_attempt_at, p.id
    limit %(limit)s)
"""
)

# Nearly every row is 'Ready': read along the primary key, none of them is read in vain.
_FINISHED: Final[LiteralString] = (
    "select "
    + _SUMMARY_COLUMNS
    + " from messenger.deal_chat_provisions p where p.status = 'Ready' and p.id > %(after_id)s"
    + " order by p.id limit %(limit)s"
)


def page(state: RowState, max_attempts: int) -> Composed:
    """The next rows in a state, in the order of schedule and id; finished ones by id alone."""
    match state:
        case RowState.DUE:
            return _merged(_at(range(max_attempts)), DUE)
        case RowState.WAITING:
            return _merged(_at(range(max_attempts)), "not (" + DUE + ")")
        case RowState.POISON:
            # More attempts than any setting allows are a fault, and sorting them costs what it costs.
            most = max(max_attempts, MAX_ATTEMPTS_BOUND)
            beyond = SQL("> {}").format(Literal(most))
            return _merged([*_at(range(max_attempts, most + 1)), beyond], "true")
        case RowState.FINISHED:
            return Composed([SQL(_FINISHED)])


FIND: Final[LiteralString] = (
    "select "
    + PROVISION_COLUMNS
    + """
from messenger.deal_chat_provisions p
where p.id = %(id)s or p.deal_id = %(id)s -- pk_deal_chat_provisions, ux_dcp_deal
order by p.id = %(id)s desc limit 1
"""
)

EVENTS: Final[LiteralString] = """
select e.id, e.type, e.occurred_at
from messenger.chats c join messenger.chat_events e on e.chat_id = c.id -- ux_chats_deal_id, ix_chat_events_chat
where c.deal_id = %(deal_id)s
order by e.occurred_at desc, e.id
limit %(limit)s
"""

# No index leads from a deal to its messages: writing one with every message would cost more than an operator's wait.
MESSAGES: Final[LiteralString] = """
select id, event_id, event_type, occurred_at, published_at, dead_at
from messenger.outbox_messages
where aggregate_type = 'DealChatProvision' and aggregate_id = %(deal_id)s::text
order by id
"""


def _at(levels: Iterable[int]) -> list[Composed]:
    return [SQL("= {}").format(Literal(level)) for level in levels]


def _merged(levels: Sequence[Composed], state: LiteralString) -> Composed:
    branches = [SQL(_AT_ATTEMPTS).format(attempts=level, state=SQL(state)) for level in levels]
    if len(branches) == 1:  # is ordered and limited already, and would not take a second time
        return branches[0]
    return SQL(" union all ").join(branches) + SQL(" order by next_attempt_at, id limit %(limit)s")
