"""The intent to give a deal its chat, and the life of that intent."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from attrs import evolve, frozen

from .backoff import BackoffPolicy
from .chat import Member
from .errors import AttemptError, IllegalTransition, InvariantViolation
from .retry_schedule import RetrySchedule


class ProvisionStatus(StrEnum):
    """State of a provision; ``Ready`` is terminal."""

    PROVISIONING = "Provisioning"
    READY = "Ready"
    FAILED = "Failed"


@frozen(kw_only=True)
class ProvisioningRules:
    """The settings that the provisioning rules depend on. Raises `InvariantViolation` for values below their bounds."""

    max_attempts: int = 8
    stuck_after: timedelta = timedelta(minutes=5)
    backoff: BackoffPolicy = BackoffPolicy()

    def __attrs_post_init__(self) -> None:
        if self.max_attempts < 1:
            raise InvariantViolation("max_attempts must be at least 1")
        if self.stuck_after < timedelta(0):
            raise InvariantViolation("stuck_after must not be negative")


@frozen(kw_only=True)
class DealChatStatusChanged:
    """The deal's chat became ready, or will not become so without an operator."""

    deal_id: UUID
    chat_id: UUID | None
    status: ProvisionStatus
    occurred_at: datetime


@frozen(kw_only=True)
class DealChatProvision:
    """A row of ``messenger.deal_chat_provisions`` with its members.

    Every transition returns the next value with ``version`` raised by one, so a writer can guard its update by
    the version it read. ``Ready`` without a chat is an `InvariantViolation`; no method leads out of ``Ready``.
    """

    id: UUID
    deal_id: UUID
    chat_id: UUID | None
    title: str
    project_id: UUID | None
    deal_tenant_id: UUID | None
    status: ProvisionStatus
    schedule: RetrySchedule
    members: tuple[Member, ...]
    created_at: datetime
    updated_at: datetime
    version: int

    def __attrs_post_init__(self) -> None:
        if self.status is ProvisionStatus.READY and self.chat_id is None:
            raise InvariantViolation("a ready provision has a chat")

    def is_due(self, *, as_of: datetime, rules: ProvisioningRules) -> bool:
        """Whether a cycle started at ``as_of`` takes this row. The SQL twin is the candidate query."""
        if self.schedule.exhausted(rules.max_attempts) or self.schedule.next_attempt_at > as_of:
            return False
        match self.status:
            case ProvisionStatus.FAILED:
                return True
            case ProvisionStatus.PROVISIONING:
                # A difference of two times always exists; as_of less a long enough delay does not.
                return as_of - self.updated_at >= rules.stuck_after
            case ProvisionStatus.READY:
                return False

    def due_from(self, *, rules: ProvisioningRules) -> datetime | None:
        """The first ``as_of`` at which `is_due` holds if nobody touches the row; None when there is none."""
        if self.schedule.exhausted(rules.max_attempts):
            return None
        match self.status:
            case ProvisionStatus.FAILED:
                return self.schedule.next_attempt_at
            case ProvisionStatus.PROVISIONING:
                try:
                    return max(self.schedule.next_attempt_at, self.updated_at + rules.stuck_after)
                except OverflowError:
                    return None
            case ProvisionStatus.READY:
                return None

    def completed(
        self, *, chat_id: UUID, now: datetime, delay: timedelta, max_attempts: int
    ) -> tuple[DealChatProvision, DealChatStatusChanged]:
        """One more attempt, which succeeded: ``Ready`` for good.

        Raises `IllegalTransition` when ``Ready`` already, or when no attempt is left.
        """
        self._ensure_attempt_left(max_attempts)
        provision = evolve(
            self,
            status=ProvisionStatus.READY,
            chat_id=chat_id,
            schedule=self.schedule.claimed(now=now, delay=delay).succeeded(),
            updated_at=now,
            version=self.version + 1,
        )
        return provision, DealChatStatusChanged(
            deal_id=self.deal_id,
            chat_id=chat_id,
            status=ProvisionStatus.READY,
            occurred_at=now,
        )

    def refused(
        self, error: AttemptError, *, now: datetime, delay: timedelta, max_attempts: int
    ) -> tuple[DealChatProvision, DealChatStatusChanged | None]:
        """One more attempt, which failed; only the last allowed one is told to the outside.

        Before that the CRM keeps showing ``Provisioning``, so there is no event. Raises like `completed`.
        """
        self._ensure_attempt_left(max_attempts)
        schedule = self.schedule.claimed(now=now, delay=delay).failed(error)
        provision = evolve(
            self,
            status=ProvisionStatus.FAILED,
            schedule=schedule,
            updated_at=now,
            version=self.version + 1,
        )
        if not schedule.exhausted(max_attempts):
            return provision, None
        return provision, DealChatStatusChanged(
            deal_id=self.deal_id,
            chat_id=self.chat_id,
            status=ProvisionStatus.FAILED,
            occurred_at=now,
        )

    def requeued(self, *, now: datetime) -> DealChatProvision:
        """Automatic retries start over on an operator's word. Raises `IllegalTransition` when ``Ready``.

        ``updated_at`` is left alone: it says when the provision last made progress.
        """
        self._ensure_open()
        schedule = self.schedule.requeued(now=now, updated_at=self.updated_at)
        return evolve(self, schedule=schedule, version=self.version + 1)

    def _ensure_open(self) -> None:
        if self.status is ProvisionStatus.READY:
            raise IllegalTransition("a ready provision stays ready")

    def _ensure_attempt_left(self, max_attempts: int) -> None:
        self._ensure_open()
        if self.schedule.exhausted(max_attempts):
            raise IllegalTransition("a provision whose attempts are used up waits for an operator")
