"""The happy path of provisioning: the CRM says that a deal was created."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from attrs import evolve, frozen

from ..domain.chat import Member
from ..domain.deal_chat_provision import DealChatProvision, ProvisionStatus
from ..domain.provisioning import ProvisionSnapshot
from ..domain.retry_schedule import RetrySchedule
from .cycle_report import AttemptReport, Outcome
from .ports.clock import Clock
from .ports.entropy import NewId
from .ports.provisioning import ProvisioningStore
from .provision_deal_chat import ProvisionDealChat, report

DEAL_CREATED: Final = "deal-created"
"""The consumer's name in logs."""


@frozen(kw_only=True)
class CreatedDeal:
    """A deal that was created, as its message tells it.

    ``members`` stand as sent: nobody, or somebody twice, is for the attempt to refuse. ``event_id`` is the message's
    own id, ``correlation_id`` goes into the headers of the events that follow from it.
    """

    deal_id: UUID
    title: str
    project_id: UUID | None
    deal_tenant_id: UUID | None
    members: tuple[Member, ...]
    event_id: UUID
    correlation_id: UUID


@frozen(kw_only=True)
class ProvisionCreatedDeal:
    """Stores the intent to give the deal its chat, and makes the first attempt at it, in one transaction.

    An attempt that a rule of the domain refuses counts and is committed; the retry job goes on from there. Repeated
    calls change nothing, and neither do calls that race the retry job: an intent that was tried before, is finished or
    waits for an operator, is not this use case's any more.

    The same membership named twice is one membership. One user with two different roles is refused by the domain
    (``ProvisionGuard:DUPLICATE_MEMBER``), which counts; stored is the role named first, since a row holds each user
    once, and with it the retry job opens the chat after the backoff: late, but not never.
    """

    store: ProvisioningStore
    provisioning: ProvisionDealChat
    clock: Clock
    new_id: NewId

    async def __call__(self, deal: CreatedDeal) -> AttemptReport:
        """Provision the deal's chat; what the report says is committed.

        Raises `DataRejected` when the intent itself cannot be stored (an over-long title, a NUL character): nothing can
        be committed for such a deal, and trying again cannot help. Raises `RowRolledBack`, `DatabaseUnavailable` or
        `Misconfigured` when nothing is known to be stored: the message is to be delivered again.
        """
        members = tuple(dict.fromkeys(deal.members))
        async with self.store.begin() as work:
            intent = await work.intend(self._intended(deal, members))
            seen = intent.seen
            if intent.is_new:
                seen = evolve(seen, provision=evolve(seen.provision, members=members))
            elif not _never_tried(seen):
                return AttemptReport(
                    outcome=Outcome.DUPLICATE,
                    subject={"deal_id": deal.deal_id},
                    attempts=seen.provision.schedule.attempts,
                )
            verdict = await self.provisioning.within(work, seen, correlation_id=deal.correlation_id)
            await work.commit()
        return report(verdict)

    def _intended(self, deal: CreatedDeal, members: tuple[Member, ...]) -> DealChatProvision:
        now = self.clock.now()
        first_named = {member.user_id: member for member in reversed(members)}
        return DealChatProvision(
            id=self.new_id(),
            deal_id=deal.deal_id,
            chat_id=None,
            title=deal.title,
            project_id=deal.project_id,
            deal_tenant_id=deal.deal_tenant_id,
            status=ProvisionStatus.PROVISIONING,
            schedule=RetrySchedule(attempts=0, next_attempt_at=now),
            members=tuple(reversed(first_named.values())),
            created_at=now,
            updated_at=now,
            version=0,
        )


def _never_tried(seen: ProvisionSnapshot) -> bool:
    provision = seen.provision
    return provision.status is ProvisionStatus.PROVISIONING and provision.schedule.attempts == 0
