"""Recordings to be finished, as operators look at them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from attrs import frozen

from ...domain.call_recording import RecordingStatus
from ...domain.finalization import FinalizeSnapshot
from .row_holder import RowHolder
from .row_summary import RowState, RowSummary
from .traces import MessageTrace, NoticeTrace


@frozen(kw_only=True)
class RecordingTraces:
    """What the outside was, or will be, told of a recording; oldest first."""

    messages: Sequence[MessageTrace]
    notices: Sequence[NoticeTrace]


class FinalizationInspection(Protocol):
    """Looks at finalizations and changes nothing. Contract tests: ``tests.contract.finalization_inspection``.

    Every method raises `DatabaseUnavailable`, `RowRolledBack` or `Misconfigured`, and leaks nothing when it raises or
    is cancelled.
    """

    async def find(self, id: UUID) -> FinalizeSnapshot | None:
        """The finalization with this id, else the one of the recording with this id, as committed now."""
        ...

    async def recording_status(self, recording_id: UUID) -> RecordingStatus | None:
        """The state of a recording, also of one that was never opened for finalization; None when there is none."""
        ...

    async def page(
        self, state: RowState, *, as_of: datetime, after: RowSummary | None, limit: int
    ) -> Sequence[RowSummary]:
        """The next rows in that state behind ``after``, the last row of the page before as it was read.

        Finished rows come by id, quarantined ones by ``(created_at, id)``, all others by ``(next_attempt_at, id)``. The
        cost follows the page.
        """
        ...

    async def traces(self, recording_id: UUID) -> RecordingTraces:
        """What the outside was told of the recording."""
        ...

    async def holder(self, entry_id: UUID) -> RowHolder | None:
        """Who has the row locked at this moment, so that a cycle would skip it; None when nobody has."""
        ...

    async def recording_holder(self, recording_id: UUID) -> RowHolder | None:
        """Who has the recording locked, so that a cycle would wait for it to write what storage says."""
        ...
