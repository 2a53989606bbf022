"""The SQL of looking at recordings to be finished."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, LiteralString

from ...application.ports.row_summary import RowState
from .finalization_statements import ENTRY_COLUMNS, SNAPSHOT_OF

_ROWS: Final[LiteralString] = (
    "select " + ENTRY_COLUMNS + " from messenger.recording_finalize_attempts e where "
)

# Served by ix_rfa_due, ix_rfa_due, ix_rfa_quarantined and the primary key, each in its order. Statuses are literals, so
# that the partial indexes serve generic plans too.
PAGE: Final[Mapping[RowState, LiteralString]] = {
    RowState.DUE: _ROWS
    + """e.status = 'Pending' and e.next_attempt_at <= %(as_of)s
    and (e.next_attempt_at, e.id) > (%(after_at)s, %(after_id)s)
order by e.next_attempt_at, e.id limit %(limit)s""",
    RowState.WAITING: _ROWS
    + """e.status = 'Pending' and e.next_attempt_at > %(as_of)s
    and (e.next_attempt_at, e.id) > (%(after_at)s, %(after_id)s)
order by e.next_attempt_at, e.id limit %(limit)s""",
    RowState.POISON: _ROWS
    + """e.status = 'Quarantined' and (e.created_at, e.id) > (%(after_created_at)s, %(after_id)s)
order by e.created_at, e.id limit %(limit)s""",
    RowState.FINISHED: _ROWS
    + """e.status = 'Done' and e.id > %(after_id)s
order by e.id limit %(limit)s""",
}

FIND: Final[LiteralString] = (
    SNAPSHOT_OF.replace("{entries}", "messenger.recording_finalize_attempts e")
    + """where e.id = %(id)s or e.recording_id = %(id)s -- pk_recording_finalize_attempts, ux_rfa_recording
order by e.id = %(id)s desc limit 1"""
)

RECORDING_STATUS: Final[LiteralString] = (
    "select r.status from messenger.call_recordings r where r.id = %(recording_id)s"
)

MESSAGES: Final[LiteralString] = """
select id, event_id, event_type, occurred_at, published_at, dead_at
from messenger.outbox_messages where dedupe_key = %(dedupe_key)s -- ux_outbox_dedupe_key
"""

# No index leads from a recording to its notices, and rows of this table are few: they are dispatched and removed.
NOTICES: Final[LiteralString] = """
select id, kind, created_at, dispatched_at
from messenger.realtime_outbox where reference_id = %(recording_id)s order by created_at, id
"""
