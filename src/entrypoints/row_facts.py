"""What commands show of single rows, as plain facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from ..adapters.postgres.lock_holder import LockHolder
from ..application.inspection import Detail, ExplainedRow, ListedRow, ShownRow
from ..application.options import JobOptions
from ..application.ports.row_holder import RowHolder
from .explanations import sentence
from .output import Fact, Facts


def row_facts(listed: ListedRow) -> Facts:
    """One row of a list."""
    row = listed.row
    return {
        "state": listed.state.value,
        "id": str(row.id),
        **_facts(row.subject),
        "status": row.status,
        "attempts": row.attempts,
        "next_attempt_at": row.next_attempt_at.isoformat(),
        "last_error": row.last_error,
        "created_at": row.created_at.isoformat(),
        "updated_at": row.updated_at.isoformat(),
    }


def shown_facts(shown: ShownRow) -> tuple[Facts, Mapping[str, Sequence[Facts] | None]]:
    """One row, and the parts that belong to it."""
    parts = {
        name: None if things is None else [_facts(thing) for thing in things]
        for name, things in shown.parts.items()
    }
    return {**row_facts(shown.listed), **_facts(shown.details)}, parts


def explained_facts(
    job: str, explained: ExplainedRow, options: JobOptions, cycle: LockHolder | None
) -> Facts:
    """Why the row is taken or not; ``cycle`` is who runs one at this moment."""
    explanation, row = explained.explanation, explained.listed.row
    taken_from, step = explanation.taken_from, explanation.next_step
    return {
        "job": job,
        "taken_now": explanation.taken_now,
        "reason": explanation.reason.value,
        "taken_from": None if taken_from is None else taken_from.isoformat(),
        "next_step": None if step is None else step.value,
        "explanation": sentence(job, explained, options, cycle),
        **row_facts(explained.listed),
        "attempts_left": max(0, options.max_attempts - row.attempts),
        **_holder_facts("locked", explanation.holder),
        "cycle_running_pid": None if cycle is None else cycle.pid,
        **_facts(explained.details),
        **(_holder_facts("recording_locked", explanation.recording_holder) if explained.details else {}),
    }


def _holder_facts(locked: str, holder: RowHolder | None) -> dict[str, Fact]:
    since = None if holder is None else holder.since
    return {
        locked: holder is not None,
        f"{locked}_by_pid": None if holder is None else holder.backend,
        f"{locked}_by": None if holder is None else holder.name,
        f"{locked}_since": None if since is None else since.isoformat(),
    }


def _facts(details: Mapping[str, Detail]) -> dict[str, Fact]:
    return {name: _fact(detail) for name, detail in details.items()}


def _fact(detail: Detail) -> Fact:
    match detail:
        case UUID():
            return str(detail)
        case datetime():
            return detail.isoformat()
        case _:
            return detail
