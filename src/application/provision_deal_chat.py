"""One provisioning attempt within an open unit of work: shared by the retry job and the deal-created consumer."""

from __future__ import annotations

from datetime import datetime
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
from .ports.tracing import UNTRACED, Tracing


@frozen(kw_only=True)
class ProvisionDealChat:
    """Decides attempts and, in a unit of work that has the row locked, writes them."""

    clock: Clock
    new_id: NewId
    spread: Spread
    rules: ProvisioningRules
    tracing: Tracing = UNTRACED

    def decide(self, seen: ProvisionSnapshot, *, not_before: datetime | None = None) -> Verdict:
        """Decide one attempt, made now.

        ``not_before`` is the time by which a cycle selected the row: a wall clock that was set back since must not
        schedule the row into the same cycle again.
        """
        return decide(
            seen,
            now=self._now(not_before),
            spread=self.spread(),
            rules=self.rules,
            new_id=self.new_id,
        )

    def message(self, verdict: Verdict, *, correlation_id: UUID) -> OutboxMessage | None:
        """What the outside is told, if anything."""
        if verdict.event is None:
            return None
        return deal_chat_status_changed(
            verdict.event,
            event_id=self.new_id(),
            correlation_id=correlation_id,
            trace=self.tracing.headers(),
        )

    async def within(
        self,
        work: ProvisioningUnit,
        seen: ProvisionSnapshot,
        *,
        correlation_id: UUID,
        not_before: datetime | None = None,
    ) -> Verdict:
        """Make the attempt in ``work``, whose row is locked; the caller commits. ``not_before`` as in `decide`.

        A concurrent creator's chat is used; values that the database refuses count as a failed attempt, with the
        half-made chat undone by a savepoint. Raises `RowRolledBack` when the chat keeps changing underneath.
        """
        for _ in range(3):
            verdict = self.decide(seen, not_before=not_before)
            try:
                async with work.savepoint():
                    settled = await work.settle(seen, verdict)
            except ChatAlreadyExists:
                settled = False
            except DataRejected as rejection:
                verdict = refuse(
                    seen.provision,
                    AttemptError("Postgres", rejection.code),
                    now=self._now(not_before),
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

    def _now(self, not_before: datetime | None) -> datetime:
        now = self.clock.now()
        return now if not_before is None else max(now, not_before)


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
