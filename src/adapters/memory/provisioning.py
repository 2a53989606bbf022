"""Deal chat provisions in the memory database."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from uuid import UUID

from attrs import evolve, field, frozen

from ...application.cursor import Cursor
from ...application.ports.outbox import OutboxMessage
from ...application.ports.provisioning import Intent, ProvisioningBacklog
from ...domain.deal_chat_provision import DealChatProvision, ProvisioningRules, ProvisionStatus
from ...domain.provisioning import ProvisionSnapshot, Verdict
from .database import Transaction
from .outbox import MemoryOutbox, insert_message
from .provision_rows import place
from .provisioning_reads import ProvisioningReads, is_due
from .provisioning_writes import insert_intent, write_provision, write_verdict
from .schema import MessengerDatabase, ProvisionRow
from .switch import Switch, let_others_run


@frozen
class MemoryProvisioningStore:
    """See `ProvisioningStore`. Several stores may share a database, as processes do."""

    _database: MessengerDatabase
    _switch: Switch = field(default=let_others_run, kw_only=True, alias="switch")

    async def candidates(
        self, *, as_of: datetime, after: Cursor | None, limit: int, rules: ProvisioningRules
    ) -> Sequence[ProvisionSnapshot]:
        """See `ProvisioningStore.candidates`."""
        async with self._reading("candidates") as reads:
            due = [
                row
                for row in reads.provisions()
                if is_due(row, as_of=as_of, rules=rules)
                and (after is None or place(row) > (after.next_attempt_at, after.id))
            ]
            return [reads.snapshot(row) for row in sorted(due, key=place)[:limit]]

    async def settle(
        self,
        seen: ProvisionSnapshot,
        verdict: Verdict,
        message: OutboxMessage | None,
        *,
        as_of: datetime,
        rules: ProvisioningRules,
    ) -> bool:
        """See `ProvisioningStore.settle`."""
        async with self._database.statement("settle", self._switch) as transaction:
            row = transaction.try_lock(self._database.provisions, seen.provision.id)
            if row is None or not is_due(row, as_of=as_of, rules=rules):
                return False
            if not await write_verdict(self._database, transaction, seen, verdict):
                return False
            if message is not None:
                await insert_message(self._database, transaction, message)
            return True

    @asynccontextmanager
    async def begin(self) -> AsyncGenerator[MemoryProvisioningUnit]:
        """See `ProvisioningStore.begin`."""
        async with self._database.begin(self._switch) as transaction:
            yield MemoryProvisioningUnit(self._database, transaction)

    async def backlog(self, *, as_of: datetime, rules: ProvisioningRules) -> ProvisioningBacklog:
        """See `ProvisioningStore.backlog`."""
        async with self._reading("backlog") as reads:
            rows = [row for row in reads.provisions() if row.status != ProvisionStatus.READY]
        failed = [
            row
            for row in rows
            if row.status == ProvisionStatus.FAILED or as_of - row.updated_at >= rules.stuck_after
        ]
        retried = [row for row in rows if not _exhausted(row, rules)]
        due = [row for row in retried if is_due(row, as_of=as_of, rules=rules)]
        return ProvisioningBacklog(
            failed=len(failed),
            due=len(due),
            waiting=len(retried) - len(due),
            poison=sum(_exhausted(row, rules) for row in failed),
            oldest_created_at=min((row.created_at for row in failed), default=None),
        )

    async def poison_ids(self, *, rules: ProvisioningRules, error: str | None = None) -> Collection[UUID]:
        """See `ProvisioningStore.poison_ids`."""
        async with self._reading("poison ids") as reads:
            return [
                row.id
                for row in sorted(reads.provisions(), key=lambda row: (row.created_at, row.id))
                if row.status != ProvisionStatus.READY
                and _exhausted(row, rules)
                and error in (None, row.last_error)
            ]

    @asynccontextmanager
    async def _reading(self, operation: str) -> AsyncGenerator[ProvisioningReads]:
        async with self._database.statement(operation, self._switch) as transaction:
            yield ProvisioningReads(self._database, transaction)


@frozen
class MemoryProvisioningUnit:
    """See `ProvisioningUnit`."""

    _database: MessengerDatabase
    _transaction: Transaction

    @property
    def outbox(self) -> MemoryOutbox:
        """See `ProvisioningUnit.outbox`."""
        return MemoryOutbox(self._database, self._transaction)

    async def intend(self, provision: DealChatProvision) -> Intent:
        """See `ProvisioningUnit.intend`."""
        async with self._transaction.statement("intend"):
            if await insert_intent(self._database, self._transaction, provision):
                return Intent(seen=ProvisionSnapshot(provision=provision), is_new=True)
        async with self._transaction.statement("lock of deal"):
            row = await self._locked_row_of(provision.deal_id)
            return Intent(seen=self._reads().snapshot(row), is_new=False)

    async def claim(
        self, provision_id: UUID, *, as_of: datetime, rules: ProvisioningRules
    ) -> ProvisionSnapshot | None:
        """See `ProvisioningUnit.claim`."""
        async with self._transaction.statement("claim"):
            row = self._transaction.get(self._database.provisions, provision_id)
            if row is None or not is_due(row, as_of=as_of, rules=rules):
                return None
            if self._transaction.try_lock(self._database.provisions, provision_id) is None:
                return None
            return self._reads().snapshot(row)

    async def lock(self, provision_id: UUID) -> DealChatProvision | None:
        """See `ProvisioningUnit.lock`."""
        async with self._transaction.statement("lock"):
            row = await self._transaction.lock(self._database.provisions, provision_id)
            return None if row is None else self._reads().provision(row)

    async def lock_of_deal(self, deal_id: UUID) -> DealChatProvision | None:
        """See `ProvisioningUnit.lock_of_deal`."""
        async with self._transaction.statement("lock of deal"):
            provisions, of_deal = self._database.provisions, self._database.provision_of_deal
            found = self._transaction.find(provisions, of_deal, deal_id)
            row = None if found is None else await self._transaction.lock(provisions, found.id)
            return None if row is None else self._reads().provision(row)

    async def refresh(self, seen: ProvisionSnapshot) -> ProvisionSnapshot:
        """See `ProvisioningUnit.refresh`."""
        async with self._transaction.statement("refresh"):
            chat, participants = self._reads().chat_of(seen.provision.deal_id)
            return evolve(seen, chat=chat, participants=participants)

    async def settle(self, seen: ProvisionSnapshot, verdict: Verdict) -> bool:
        """See `ProvisioningUnit.settle`."""
        async with self._transaction.statement("settle"):
            return await write_verdict(self._database, self._transaction, seen, verdict)

    async def requeue(self, provision: DealChatProvision) -> bool:
        """See `ProvisioningUnit.requeue`."""
        async with self._transaction.statement("requeue"):
            return await write_provision(self._database, self._transaction, provision)

    async def commit(self) -> None:
        """See `UnitOfWork.commit`."""
        await self._transaction.commit()

    @asynccontextmanager
    async def savepoint(self) -> AsyncGenerator[None]:
        """See `UnitOfWork.savepoint`."""
        async with self._transaction.savepoint():
            yield

    async def _locked_row_of(self, deal_id: UUID) -> ProvisionRow:
        provisions, of_deal = self._database.provisions, self._database.provision_of_deal
        found = self._transaction.find(provisions, of_deal, deal_id)
        row = None if found is None else await self._transaction.lock(provisions, found.id)
        assert row is not None, "provisions are never deleted"
        return row

    def _reads(self) -> ProvisioningReads:
        return ProvisioningReads(self._database, self._transaction)


def _exhausted(row: ProvisionRow, rules: ProvisioningRules) -> bool:
    return row.attempts >= rules.max_attempts
