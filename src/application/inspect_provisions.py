"""Operators look at deal chat provisions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from attrs import frozen

from ..domain.deal_chat_provision import DealChatProvision, ProvisioningRules
from ..domain.provisioning import ProvisionSnapshot
from .explain_provision import explain_provision
from .inspection import (
    Detail,
    ExplainedRow,
    ListedRow,
    NoSuchRow,
    ShownRow,
    listed_by_pages,
    trace_details,
)
from .ports.clock import Clock
from .ports.provisioning_inspection import ProvisioningInspection
from .ports.row_summary import RowState, RowSummary
from .row_states import provision_state, provision_summary


@frozen(kw_only=True)
class InspectProvisions:
    """See `Inspection`. A row is named by its own id or by its deal's; no transaction spans what is read."""

    provisions: ProvisioningInspection
    clock: Clock
    rules: ProvisioningRules

    async def listed(self, states: Sequence[RowState], *, limit: int) -> Sequence[ListedRow]:
        """See `Inspection.listed`."""
        as_of = self.clock.now()

        async def page(state: RowState, *, after: RowSummary | None, limit: int) -> Sequence[RowSummary]:
            return await self.provisions.page(state, as_of=as_of, rules=self.rules, after=after, limit=limit)

        return await listed_by_pages(states, limit=limit, page=page)

    async def shown(self, id: UUID) -> ShownRow:
        """See `Inspection.shown`."""
        seen = await self._found(id)
        traces = await self.provisions.traces(seen.provision.deal_id)
        present = [participant for participant in seen.participants if participant.left_at is None]
        chat = seen.chat
        details: dict[str, Detail] = {
            "members": len(seen.provision.members),
            "deals_chat_id": None if chat is None else chat.id,
            "chat_kind": None if chat is None else chat.kind,
            "chat_status": None if chat is None else chat.status,
            "participants": len(present),
            "version": seen.provision.version,
        }
        return ShownRow(
            listed=self._listed(seen.provision, self.clock.now()),
            details=details,
            parts={
                "events": [
                    {"id": event.id, "type": event.type, "occurred_at": event.occurred_at}
                    for event in traces.events
                ],
                "messages": None if traces.messages is None else [*map(trace_details, traces.messages)],
            },
        )

    async def explained(self, id: UUID) -> ExplainedRow:
        """See `Inspection.explained`."""
        provision = (await self._found(id)).provision
        holder = await self.provisions.holder(provision.id)
        as_of = self.clock.now()
        return ExplainedRow(
            listed=self._listed(provision, as_of),
            explanation=explain_provision(provision, as_of=as_of, rules=self.rules, holder=holder),
            details={},
        )

    async def _found(self, id: UUID) -> ProvisionSnapshot:
        seen = await self.provisions.find(id)
        if seen is None:
            raise NoSuchRow("there is no provision with this id, and none of a deal with it")
        return seen

    def _listed(self, provision: DealChatProvision, as_of: datetime) -> ListedRow:
        state = provision_state(provision, as_of=as_of, rules=self.rules)
        return ListedRow(state=state, row=provision_summary(provision))
