"""One provisioning attempt within an open unit of work: shared by the retry job and the deal-created consumer."""

from __future__ import annotations

from uuid import UUID

from attrs import frozen

from ..domain.deal_chat_provision import ProvisioningRules
from ..domain.errors import AttemptError
from ..domain.provisioning import (
    Provisioned,
    ProvisionSnapshot,
    Refused,
    Verdict,
    decide,
    refuse,
)
from .cycle_report import AttemptReport, Outcome
from .integration_events import deal_chat_status_changed
from .ports.clock import Clock
from .ports.entropy import NewId, Spread
from .ports.errors import ChatAlreadyExists, DataRejected, RowRolledBack
from .ports.outbox import OutboxMessage
from .ports.provisioning import ProvisioningUnit


@frozen(kw_only=True)
class ProvisionDealChat:
    """Decides attempts and, in a unit of work that has the row locked, writes them."""

    clock: Clock
    new_id: NewId
    spread: Spread
    rules: ProvisioningRules

    def decide(self, seen: ProvisionSnapshot) -> Verdict:
        """Decide one attempt, made now."""
        return decide(
            seen,
            now=self.clock.now(),
            spread=self.spread(),
            rules=self.rules,
            new_id=self.new_id,
        )

    def message(self, verdict: Verdict, *, correlation_id: UUID) -> OutboxMessage | None:
        """What the outside is told, if anything."""
        if verdict.event is None:
            return None
        return deal_chat_status_changed(verdict.event, event_id=self.new_id(), correlation_id=correlation_id)

    async def within(
        self, work: ProvisioningUnit, seen: ProvisionSnapshot, *, correlation_id: UUID
    ) -> Verdict:
        """Make the attempt in ``work``, whose row is locked; the caller commits.

        A concurrent creator's chat is used; values that the database refuses count as a failed attempt, with the
        half-made chat undone by a savepoint. Raises `RowRolledBack` when the chat keeps changing underneath.
        """
        for _ in range(3):
            verdict = self.decide(seen)
            try:
                async with work.savepoint():
                    settled = await work.settle(seen, verdict)
            except ChatAlreadyExists:
                settled = False
            except DataRejected as rejection:
                verdict = refuse(
                    seen.provision,
                    AttemptError("Postgres", rejection.code),
                    now=self.clock.now(),
                    spread=self.spread(),
                    rules=self.rules,
                )
                settled = await work.settle(seen, verdict)
            if settled:
                message = self.message(verdict, correlation_id=correlation_id)
                if message is not None:
                    await work.outbox.add(message)
                return verdict
            seen = await work.refresh(seen)
        raise RowRolledBack("CHAT_CHANGING", "the deal's chat kept changing during the attempt")


def report(verdict: Verdict) -> AttemptReport:
    """What the committed verdict is called in logs, metrics and summaries."""
    provision = verdict.provision
    match verdict:
        case Provisioned():
            return AttemptReport(
                outcome=Outcome.PROVISIONED,
                subject={"deal_id": provision.deal_id, "chat_id": verdict.chat_id},
                attempts=provision.schedule.attempts,
            )
        case Refused():
            return AttemptReport(
                outcome=Outcome.RETRIED if verdict.event is None else Outcome.FAILED,
                subject={"deal_id": provision.deal_id},
                attempts=provision.schedule.attempts,
                error_code=str(verdict.error),
            )
