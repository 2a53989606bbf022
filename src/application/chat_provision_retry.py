"""The ``chat-provision-retry`` job: deal chats that never became ready are made ready."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from attrs import frozen

from ..domain.provisioning import ProvisionSnapshot
from .cursor import Cursor
from .cycle_report import AttemptReport, Cycle, Outcome
from .ports.errors import ChatAlreadyExists, DataRejected
from .ports.provisioning import ProvisioningStore
from .provision_deal_chat import ProvisionDealChat, report

CHAT_PROVISION_RETRY: Final = "chat-provision-retry"


@frozen(kw_only=True)
class ChatProvisionRetry:
    """One attempt is one transaction per row.

    The usual row costs one guarded statement, decided on what was read ahead without locks. Whatever changed since
    makes that statement write nothing; the row is then locked, read again, decided again and written.
    """

    store: ProvisioningStore
    provisioning: ProvisionDealChat

    @property
    def name(self) -> str:
        """``chat-provision-retry``."""
        return CHAT_PROVISION_RETRY

    async def candidates(
        self, *, as_of: datetime, after: Cursor | None, limit: int
    ) -> Sequence[ProvisionSnapshot]:
        """The next rows due, with all that their attempts decide on."""
        return await self.store.candidates(
            as_of=as_of, after=after, limit=limit, rules=self.provisioning.rules
        )

    def cursor(self, candidate: ProvisionSnapshot) -> Cursor:
        """The row's place in the order of schedule and id."""
        provision = candidate.provision
        return Cursor(next_attempt_at=provision.schedule.next_attempt_at, id=provision.id)

    async def attempt(self, candidate: ProvisionSnapshot, cycle: Cycle) -> AttemptReport:
        """Make one attempt; all of it is committed when this returns, nothing when it raises."""
        verdict = self.provisioning.decide(candidate, not_before=cycle.as_of)
        message = self.provisioning.message(verdict, correlation_id=cycle.run_id)
        try:
            settled = await self.store.settle(
                candidate,
                verdict,
                message,
                as_of=cycle.as_of,
                rules=self.provisioning.rules,
            )
        except (ChatAlreadyExists, DataRejected):
            settled = False
        return report(verdict) if settled else await self._claim_and_attempt(candidate, cycle)

    async def preview(self, candidate: ProvisionSnapshot, cycle: Cycle) -> AttemptReport:
        """What an attempt would report if nobody else interfered; writes nothing."""
        del cycle
        return report(self.provisioning.decide(candidate))

    async def _claim_and_attempt(self, candidate: ProvisionSnapshot, cycle: Cycle) -> AttemptReport:
        async with self.store.begin() as work:
            seen = await work.claim(candidate.provision.id, as_of=cycle.as_of, rules=self.provisioning.rules)
            if seen is None:
                return AttemptReport(
                    outcome=Outcome.SKIPPED,
                    subject={"deal_id": candidate.provision.deal_id},
                )
            verdict = await self.provisioning.within(
                work, seen, correlation_id=cycle.run_id, not_before=cycle.as_of
            )
            await work.commit()
        return report(verdict)
