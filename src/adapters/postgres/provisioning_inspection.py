"""Deal chat provisions in PostgreSQL, as operators look at them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Final
from uuid import UUID

from attrs import frozen

from ...application.ports.errors import RowRolledBack
from ...application.ports.provisioning_inspection import DealTraces
from ...application.ports.row_holder import RowHolder
from ...application.ports.row_summary import RowState, RowSummary
from ...application.ports.traces import MOST_EVENTS, EventTrace, MessageTrace
from ...domain.deal_chat_provision import ProvisioningRules
from ...domain.provisioning import ProvisionSnapshot
from . import provision_inspection_statements as sql
from .connections import Connections
from .fetching import Row, rows_from
from .provision_rows import BEGINNING_OF_TIME, due_parameters, snapshot_from
from .provision_statements import CONTEXT
from .row_holders import PROVISIONS, row_holder
from .trace_rows import message_trace

_TOOK_TOO_LONG: Final = "57014"


@frozen
class PostgresProvisioningInspection:
    """See `ProvisioningInspection`."""

    _connections: Connections

    async def find(self, id: UUID) -> ProvisionSnapshot | None:
        """See `ProvisioningInspection.find`."""
        for row in await rows_from(self._connections, sql.FIND, {"id": id}):
            for context in await rows_from(self._connections, CONTEXT, {"ids": [row[0]]}):
                return snapshot_from(row, context)
        return None

    async def page(
        self,
        state: RowState,
        *,
        as_of: datetime,
        rules: ProvisioningRules,
        after: RowSummary | None,
        limit: int,
    ) -> Sequence[RowSummary]:
        """See `ProvisioningInspection.page`."""
        parameters = {
            "after_at": BEGINNING_OF_TIME if after is None else after.next_attempt_at,
            "after_id": UUID(int=0) if after is None else after.id,
            "limit": limit,
            **due_parameters(as_of, rules),
        }
        rows = await rows_from(self._connections, _page(state, rules.max_attempts), parameters, prepare=False)
        return [_summary(row) for row in rows]

    async def traces(self, deal_id: UUID) -> DealTraces:
        """See `ProvisioningInspection.traces`."""
        events = await rows_from(self._connections, sql.EVENTS, {"deal_id": deal_id, "limit": MOST_EVENTS})
        return DealTraces(
            events=[EventTrace(id=id_, type=type_, occurred_at=at) for id_, type_, at in events],
            messages=await self._messages(deal_id),
        )

    async def holder(self, provision_id: UUID) -> RowHolder | None:
        """See `ProvisioningInspection.holder`."""
        return await row_holder(self._connections, PROVISIONS, provision_id)

    async def _messages(self, deal_id: UUID) -> Sequence[MessageTrace] | None:
        try:
            rows = await rows_from(self._connections, sql.MESSAGES, {"deal_id": deal_id})
        except RowRolledBack as error:
            if error.code == _TOOK_TOO_LONG:
                return None
            raise
        return [message_trace(row) for row in rows]


@lru_cache(maxsize=16)
def _page(state: RowState, max_attempts: int) -> bytes:
    return sql.page(state, max_attempts).as_bytes(None)


def _summary(row: Row) -> RowSummary:
    id_, deal_id, chat_id, status, attempts, next_attempt_at, last_error, created_at, updated_at = row
    return RowSummary(
        id=id_,
        subject={"deal_id": deal_id, "chat_id": chat_id},
        status=status,
        attempts=attempts,
        next_attempt_at=next_attempt_at,
        last_error=last_error,
        created_at=created_at,
        updated_at=updated_at,
    )
