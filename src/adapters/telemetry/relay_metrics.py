"""Counters of the outbox relay."""

from __future__ import annotations

from uuid import UUID

from prometheus_client import CollectorRegistry, Counter

from ...application.outbox_relay import OUTBOX_RELAY
from ...application.relay_report import MessageFailure, PassReport
from ...application.trouble import Trouble, TroubleKind
from .job_metrics import JobMetrics


class RelayMetrics:
    """A `RelayTelemetry` that counts into ``registry``; a pass is the relay's cycle in ``job_metrics``."""

    def __init__(self, registry: CollectorRegistry, job_metrics: JobMetrics) -> None:
        self._jobs = job_metrics
        self._counted: Trouble | None = None
        self._published = Counter(
            "messenger_outbox_published_total",
            "Messages that the broker acknowledged.",
            registry=registry,
        )
        self._dead = Counter(
            "messenger_outbox_dead_total",
            "Messages parked because they can never be sent.",
            registry=registry,
        )

    def lock_acquired(self, run_id: UUID) -> None:
        """The lock is held."""
        self._jobs.lock_held(OUTBOX_RELAY, True)

    def lock_released(self, run_id: UUID) -> None:
        """The lock is not held any more."""
        self._jobs.lock_held(OUTBOX_RELAY, False)

    def standing_by(self, run_id: UUID) -> None:
        """Nothing to count: the lock's gauge says it, and an attempt to get the lock is no cycle."""

    def lock_lost(self, run_id: UUID) -> None:
        """The lock is not known to be held."""
        self._jobs.lock_held(OUTBOX_RELAY, False)

    def message_failed(self, run_id: UUID, failure: MessageFailure) -> None:
        """Nothing to count: it stays in the backlog."""

    def message_parked(self, run_id: UUID, failure: MessageFailure) -> None:
        """Count it."""
        self._dead.inc()

    def pass_finished(self, report: PassReport) -> None:
        """Count what was published and what was wrong, observe the duration, and remember a success."""
        self._count(report.trouble)
        self._published.inc(report.published)
        self._jobs.cycle_ended(
            OUTBOX_RELAY, report.end, started_at=report.started_at, duration=report.duration
        )

    def pruned(self, run_id: UUID, messages: int) -> None:
        """Nothing to count."""

    def trouble_began(self, run_id: UUID, trouble: Trouble) -> None:
        """Count what kept a pass from starting; what ended one is counted with it, every time."""
        if trouble is not self._counted:
            self._count(trouble)

    def trouble_ended(self, run_id: UUID, trouble: Trouble) -> None:
        """Nothing to count."""

    def _count(self, trouble: Trouble | None) -> None:
        self._counted = trouble
        if trouble is None:
            return
        match trouble.kind:
            case TroubleKind.CONFIGURATION:
                self._jobs.configuration_fault(OUTBOX_RELAY)
            case TroubleKind.DEFECT:
                self._jobs.defect(OUTBOX_RELAY)
            case TroubleKind.DATABASE | TroubleKind.BROKER:
                pass
