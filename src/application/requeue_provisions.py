"""An operator lets automatic retries start over."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from attrs import frozen

from ..domain.deal_chat_provision import ProvisioningRules
from ..domain.errors import IllegalTransition
from .ports.clock import Clock
from .ports.errors import RowRolledBack
from .ports.provisioning import ProvisioningStore
from .requeue_report import RequeueReport


@frozen(kw_only=True)
class RequeueProvisions:
    """Sets ``attempts = 0`` and ``next_attempt_at = now``, each row in a transaction of its own.

    A row is named by its own id or by its deal's. One that is ``Ready``, missing, locked for too long or changed
    meanwhile is refused with a reason and left alone. Repeating is harmless. With ``dry_run`` nothing is written and
    the report says what would be.
    """

    store: ProvisioningStore
    clock: Clock
    rules: ProvisioningRules

    async def poison(self, *, error: str | None = None, dry_run: bool = False) -> RequeueReport:
        """All rows whose attempts are used up, optionally only those with exactly this ``last_error``."""
        ids = await self.store.poison_ids(rules=self.rules, error=error)
        return await self.rows(ids, dry_run=dry_run)

    async def rows(self, ids: Iterable[UUID], *, dry_run: bool = False) -> RequeueReport:
        """The named rows, whatever their attempts."""
        requeued: list[UUID] = []
        refused: dict[UUID, str] = {}
        for id_ in dict.fromkeys(ids):
            try:
                reason = await self._requeue(id_, dry_run=dry_run)
            except RowRolledBack as error:  # the others must not suffer, nor their report be lost
                reason = str(error)
            if reason is None:
                requeued.append(id_)
            else:
                refused[id_] = reason
        return RequeueReport(requeued=tuple(requeued), refused=refused)

    async def _requeue(self, id_: UUID, *, dry_run: bool) -> str | None:
        async with self.store.begin() as work:
            provision = await work.lock(id_) or await work.lock_of_deal(id_)
            if provision is None:
                return "there is no such provision"
            try:
                requeued = provision.requeued(now=self.clock.now())
            except IllegalTransition as refusal:
                return str(refusal)
            if dry_run:
                return None
            if not await work.requeue(requeued):
                return "the provision changed at the same time"
            await work.commit()
        return None
