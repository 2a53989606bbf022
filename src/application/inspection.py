"""What operators see of a job's rows: no titles, names, contents or addresses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, Protocol
from uuid import UUID

from attrs import frozen

from .explanation import Explanation
from .ports.row_summary import RowState, RowSummary
from .ports.traces import MessageTrace

PAGE_SIZE: Final = 500
"""Rows that one statement reads: pages keep each of them short, however many rows are listed."""

Detail = None | bool | int | str | UUID | datetime


class NoSuchRow(Exception):
    """No row has this id; the sentence says what was looked for."""


@frozen(kw_only=True)
class ListedRow:
    """A row, and where it stood when it was read."""

    state: RowState
    row: RowSummary


@frozen(kw_only=True)
class ShownRow:
    """One row with what belongs to it: single ``details``, and ``parts`` of several things each.

    A part is None where it could not be found in the time that a statement has.
    """

    listed: ListedRow
    details: Mapping[str, Detail]
    parts: Mapping[str, Sequence[Mapping[str, Detail]] | None]


@frozen(kw_only=True)
class ExplainedRow:
    """One row with the reason why it is taken, or is not; ``details`` are what the reason rests on."""

    listed: ListedRow
    explanation: Explanation
    details: Mapping[str, Detail]


class Inspection(Protocol):
    """Looks at a job's rows and changes nothing. Raises what the ports raise."""

    async def listed(self, states: Sequence[RowState], *, limit: int) -> Sequence[ListedRow]:
        """At most ``limit`` rows, state by state in that order; a row that changes meanwhile is listed once."""
        ...

    async def shown(self, id: UUID) -> ShownRow:
        """The row of this id, its own or that of what it is about. Raises `NoSuchRow`."""
        ...

    async def explained(self, id: UUID) -> ExplainedRow:
        """The same row, and why it is taken or not. Raises `NoSuchRow`."""
        ...


class _Page(Protocol):
    async def __call__(
        self, state: RowState, *, after: RowSummary | None, limit: int
    ) -> Sequence[RowSummary]: ...


async def listed_by_pages(states: Sequence[RowState], *, limit: int, page: _Page) -> Sequence[ListedRow]:
    """`Inspection.listed`, of a page at a time."""
    rows: dict[UUID, ListedRow] = {}
    for state in states:
        after: RowSummary | None = None
        while len(rows) < limit:
            wanted = min(PAGE_SIZE, limit - len(rows))
            read = await page(state, after=after, limit=wanted)
            for row in read:
                rows.setdefault(row.id, ListedRow(state=state, row=row))
            if len(read) < wanted:
                break
            after = read[-1]
    return list(rows.values())


def trace_details(message: MessageTrace) -> Mapping[str, Detail]:
    """A message of the outbox as one of the parts of a row."""
    return {
        "id": message.id,
        "event_id": message.event_id,
        "event_type": message.event_type,
        "occurred_at": message.occurred_at,
        "published_at": message.published_at,
        "dead_at": message.dead_at,
    }
