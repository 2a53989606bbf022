"""Which transaction has a row locked, as far as the server tells."""

from __future__ import annotations

from typing import Final, LiteralString
from uuid import UUID

from attrs import frozen
from psycopg import AsyncCursor
from psycopg.rows import class_row

from ...application.ports.row_holder import RowHolder
from .connections import Connections
from .errors import TranslatedErrors
from .fetching import changed_rows_on

# A row's lock stands in the row itself, as the id of its transaction: `xmax`, which also stays there when that is over.
# Where several transactions share the row it is the id of a group, and nobody's name is found.
_NAMED_IN_ROW: Final[LiteralString] = """
select activity.pid as backend, activity.application_name as name, activity.xact_start as since
from messenger.{table} as held
    left join pg_locks as lock
        on lock.locktype = 'transactionid' and lock.granted and lock.transactionid = held.xmax
    left join pg_stat_activity as activity on activity.pid = lock.pid
where held.id = %(id)s and held.xmax::text <> '0'
limit 1
"""

_TRY: Final[LiteralString] = "select from messenger.{table} where id = %(id)s for no key update skip locked"


@frozen
class _Questions:
    named: LiteralString
    attempt: LiteralString


def _about(table: LiteralString) -> _Questions:
    return _Questions(_NAMED_IN_ROW.replace("{table}", table), _TRY.replace("{table}", table))


PROVISIONS: Final = _about("deal_chat_provisions")
FINALIZATIONS: Final = _about("recording_finalize_attempts")
RECORDINGS: Final = _about("call_recordings")


async def row_holder(connections: Connections, questions: _Questions, id: UUID) -> RowHolder | None:
    """Who has the row locked, so that a cycle would skip it; None when nobody has, or there is no such row.

    A row that no transaction stands in is free, which is the usual case. For any other the lock is tried, and given
    back at once: only that tells a lock from what is left of one.
    """
    async with connections.statement() as connection:
        with TranslatedErrors():
            cursor = AsyncCursor(connection, row_factory=class_row(RowHolder))
            await cursor.execute(questions.named, {"id": id})
            named = await cursor.fetchone()
    if named is None:
        return None
    async with connections.transaction() as transaction:
        tried = await changed_rows_on(transaction.connection, questions.attempt, {"id": id})
        return None if tried == 1 else named
