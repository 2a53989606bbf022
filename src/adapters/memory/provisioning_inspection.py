"""Deal chat provisions in the memory database, as operators look at them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from uuid import UUID

from attrs import field, frozen

from ...application.ports.provisioning_inspection import DealTraces
from ...application.ports.row_holder import RowHolder
from ...application.ports.row_summary import RowState, RowSummary
from ...application.ports.traces import MOST_EVENTS, EventTrace
from ...application.row_states import provision_state, provision_summary
from ...domain.deal_chat_provision import ProvisioningRules
from ...domain.provisioning import ProvisionSnapshot
from .clock import EPOCH
from .database import Transaction
from .provision_rows import provision_of
from .provisioning_reads import ProvisioningReads
from .schema import MessengerDatabase
from .switch import Switch, let_others_run
from .traces import message_trace


@frozen
class MemoryProvisioningInspection:
    """See `ProvisioningInspection`."""

    _database: MessengerDatabase
    _switch: Switch = field(default=let_others_run, kw_only=True, alias="switch")

    async def find(self, id: UUID) -> ProvisionSnapshot | None:
        """See `ProvisioningInspection.find`."""
        async with self._reading("find") as transaction:
            provisions, of_deal = self._database.provisions, self._database.provision_of_deal
            row = transaction.get(provisions, id) or transaction.find(provisions, of_deal, id)
            return None if row is None else ProvisioningReads(self._database, transaction).snapshot(row)

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
        async with self._reading("page") as transaction:
            provisions = [provision_of(row, ()) for row in transaction.rows(self._database.provisions)]
        rows = [
            provision_summary(provision)
            for provision in provisions
            if provision_state(provision, as_of=as_of, rules=rules) is state
        ]
        behind = [row for row in rows if after is None or _place(state, row) > _place(state, after)]
        return sorted(behind, key=lambda row: _place(state, row))[:limit]

    async def traces(self, deal_id: UUID) -> DealTraces:
        """See `ProvisioningInspection.traces`."""
        async with self._reading("traces") as transaction:
            chat = transaction.find(self._database.chats, self._database.chat_of_deal, deal_id)
            feed = transaction.rows(self._database.chat_events)
            outbox = transaction.rows(self._database.outbox)
        entries = [entry for entry in feed if chat is not None and entry.chat_id == chat.id]
        by_id = sorted(entries, key=lambda entry: entry.id)
        newest_first = sorted(by_id, key=lambda entry: entry.occurred_at, reverse=True)
        return DealTraces(
            events=[
                EventTrace(id=entry.id, type=entry.type, occurred_at=entry.occurred_at)
                for entry in newest_first[:MOST_EVENTS]
            ],
            messages=[
                message_trace(row)
                for row in sorted(outbox, key=lambda row: row.id)
                if (row.message.aggregate_type, row.message.aggregate_id)
                == ("DealChatProvision", str(deal_id))
            ],
        )

    async def holder(self, provision_id: UUID) -> RowHolder | None:
        """See `ProvisioningInspection.holder`. Transactions here have no names."""
        async with self._reading("holder") as transaction:
            if transaction.get(self._database.provisions, provision_id) is None:
                return None
            locked = transaction.try_lock(self._database.provisions, provision_id) is None
            return RowHolder() if locked else None

    @asynccontextmanager
    async def _reading(self, operation: str) -> AsyncGenerator[Transaction]:
        async with self._database.statement(operation, self._switch) as transaction:
            yield transaction


def _place(state: RowState, row: RowSummary) -> tuple[datetime, UUID]:
    return (EPOCH if state is RowState.FINISHED else row.next_attempt_at), row.id
