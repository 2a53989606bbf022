"""Deal chat provisions, as operators look at them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from attrs import frozen

from ...domain.deal_chat_provision import ProvisioningRules
from ...domain.provisioning import ProvisionSnapshot
from .row_holder import RowHolder
from .row_summary import RowState, RowSummary
from .traces import EventTrace, MessageTrace


@frozen(kw_only=True)
class DealTraces:
    """What a deal's provisioning has left behind.

    ``events`` are the latest of the chat's feed (``MOST_EVENTS``), newest first. ``messages`` of the outbox come by id;
    None when they could not be found in the time that a statement has.
    """

    events: Sequence[EventTrace]
    messages: Sequence[MessageTrace] | None


class ProvisioningInspection(Protocol):
    """Looks at provisions and changes nothing. Contract tests: ``tests.contract.provisioning_inspection``.

    Every method raises `DatabaseUnavailable`, `RowRolledBack` or `Misconfigured`, and leaks nothing when it raises or
    is cancelled.
    """

    async def find(self, id: UUID) -> ProvisionSnapshot | None:
        """The provision with this id, else the one of the deal with this id, with its chat, as committed now."""
        ...

    async def page(
        self,
        state: RowState,
        *,
        as_of: datetime,
        rules: ProvisioningRules,
        after: RowSummary | None,
        limit: int,
    ) -> Sequence[RowSummary]:
        """The next rows in that state behind ``after``, the last row of the page before as it was read.

        Finished rows come by id, all others by ``(next_attempt_at, id)``. The cost follows the page; for rows that
        wait it also follows the rows that are due, and never the whole table.
        """
        ...

    async def traces(self, deal_id: UUID) -> DealTraces:
        """What the deal's provisioning has left behind."""
        ...

    async def holder(self, provision_id: UUID) -> RowHolder | None:
        """Who has the row locked at this moment, so that a cycle would skip it; None when nobody has."""
        ...
