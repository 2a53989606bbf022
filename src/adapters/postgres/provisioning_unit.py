"""One provisioning attempt's transaction."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from ...application.ports.errors import RowRolledBack
from ...application.ports.provisioning import Intent
from ...domain.deal_chat_provision import DealChatProvision, ProvisioningRules
from ...domain.provisioning import ProvisionSnapshot, Verdict
from . import provision_statements as sql
from .fetching import Row
from .provision_rows import (
    due_parameters,
    intend_parameters,
    provision_from,
    refreshed,
    settle_parameters,
    snapshot_from,
)
from .unit_of_work import PostgresUnitOfWork


class PostgresProvisioningUnit(PostgresUnitOfWork):
    """See `ProvisioningUnit`."""

    async def intend(self, provision: DealChatProvision) -> Intent:
        """See `ProvisioningUnit.intend`. One statement for a new deal, three for a known one."""
        if await self._row(sql.INTEND, intend_parameters(provision)) is not None:
            return Intent(seen=ProvisionSnapshot(provision=provision), is_new=True)
        row = await self._row(sql.LOCK_OF_DEAL, {"deal_id": provision.deal_id})
        if row is None:
            raise RowRolledBack("INTENT_GONE", "the deal's provision was deleted during the transaction")
        return Intent(seen=snapshot_from(row, await self._context(row[0])), is_new=False)

    async def claim(
        self, provision_id: UUID, *, as_of: datetime, rules: ProvisioningRules
    ) -> ProvisionSnapshot | None:
        """See `ProvisioningUnit.claim`."""
        row = await self._row(sql.CLAIM, {"id": provision_id, **due_parameters(as_of, rules)})
        return None if row is None else snapshot_from(row, await self._context(provision_id))

    async def lock(self, provision_id: UUID) -> DealChatProvision | None:
        """See `ProvisioningUnit.lock`."""
        row = await self._row(sql.LOCK, {"id": provision_id})
        return None if row is None else provision_from(row, await self._context(provision_id))

    async def lock_of_deal(self, deal_id: UUID) -> DealChatProvision | None:
        """See `ProvisioningUnit.lock_of_deal`."""
        row = await self._row(sql.LOCK_OF_DEAL, {"deal_id": deal_id})
        return None if row is None else provision_from(row, await self._context(row[0]))

    async def refresh(self, seen: ProvisionSnapshot) -> ProvisionSnapshot:
        """See `ProvisioningUnit.refresh`."""
        return refreshed(seen, await self._context(seen.provision.id))

    async def settle(self, seen: ProvisionSnapshot, verdict: Verdict) -> bool:
        """See `ProvisioningUnit.settle`."""
        return await self._changes_a_row(sql.SETTLE, settle_parameters(seen, verdict, None))

    async def requeue(self, provision: DealChatProvision) -> bool:
        """See `ProvisioningUnit.requeue`."""
        schedule = provision.schedule
        parameters = {
            "id": provision.id,
            "attempts": schedule.attempts,
            "next_attempt_at": schedule.next_attempt_at,
            "version": provision.version,
        }
        return await self._changes_a_row(sql.REQUEUE, parameters)

    async def _context(self, provision_id: UUID) -> Row:
        """Of a row that this transaction has locked, so that it is there."""
        context = await self._row(sql.CONTEXT, {"ids": [provision_id]})
        assert context is not None
        return context
