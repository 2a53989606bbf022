"""Counters and gauges of the periodic jobs and their cycles."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from uuid import UUID

from prometheus_client import CollectorRegistry, Counter

from ...application.chat_provision_retry import CHAT_PROVISION_RETRY
from ...application.cycle_report import AttemptReport, Cycle, CycleEnd, CycleReport, Outcome
from ...application.ports.errors import PortError
from ...application.recording_finalize_retry import RECORDING_FINALIZE_RETRY
from .job_metrics import JobMetrics


class CycleMetrics:
    """A `Telemetry` that counts into ``registry``; ``jobs`` are those that this process runs.

    Their gauges are there from the start, in ``jobs``, which other jobs' telemetry may share.
    """

    def __init__(self, registry: CollectorRegistry, jobs: Iterable[str]) -> None:
        self.jobs = JobMetrics(registry, jobs)
        self._attempts = {
            (CHAT_PROVISION_RETRY, Outcome.RETRIED): Counter(
                "messenger_chat_provision_retried_total",
                "Provisioning attempts that failed and will be repeated.",
                registry=registry,
            ),
            (CHAT_PROVISION_RETRY, Outcome.PROVISIONED): Counter(
                "messenger_chat_provision_succeeded_total",
                "Deal chats made ready.",
                registry=registry,
            ),
            (CHAT_PROVISION_RETRY, Outcome.FAILED): Counter(
                "messenger_chat_provision_poison_total",
                "Provisions whose attempts are used up.",
                registry=registry,
            ),
            (RECORDING_FINALIZE_RETRY, Outcome.RECONCILED): Counter(
                "messenger_recording_finalize_reconciled_total",
                "Recordings made available with the file found in storage.",
                registry=registry,
            ),
            (RECORDING_FINALIZE_RETRY, Outcome.FAILED): Counter(
                "messenger_recording_finalize_failed_total",
                "Recordings declared lost, because storage has no file.",
                registry=registry,
            ),
            (RECORDING_FINALIZE_RETRY, Outcome.REPUBLISHED): Counter(
                "messenger_recording_finalize_republished_total",
                "Available recordings that were announced late.",
                registry=registry,
            ),
            (RECORDING_FINALIZE_RETRY, Outcome.QUARANTINED): Counter(
                "messenger_recording_finalize_quarantined_total",
                "Finalizations that wait for an operator.",
                registry=registry,
            ),
        }

    def cycle_started(self, cycle: Cycle) -> None:
        """The lock is held."""
        self.jobs.lock_held(cycle.job, True)

    def cycle_skipped(self, cycle: Cycle) -> None:
        """Count a cycle without duration."""
        self.jobs.cycle_ended(cycle.job, CycleEnd.SKIPPED, started_at=cycle.as_of, duration=timedelta(0))

    def batch_claimed(self, cycle: Cycle, rows: int) -> None:
        """Nothing to count."""

    def attempted(self, cycle: Cycle, report: AttemptReport) -> None:
        """Count the attempt by job and outcome."""
        counter = self._attempts.get((cycle.job, report.outcome))
        if counter is not None:
            counter.inc()

    def row_rolled_back(self, cycle: Cycle, error: PortError, row: UUID) -> None:
        """Nothing to count."""

    def defect(self, cycle: Cycle, error: BaseException, row: UUID | None) -> None:
        """Count it."""
        self.jobs.defect(cycle.job)

    def configuration_fault(self, cycle: Cycle, error: PortError) -> None:
        """Count it."""
        self.jobs.configuration_fault(cycle.job)

    def lock_lost(self, cycle: Cycle) -> None:
        """The lock is not known to be held."""
        self.jobs.lock_held(cycle.job, False)

    def cycle_aborted(self, cycle: Cycle, code: str) -> None:
        """The lock is about to be released, whatever comes after."""
        self.jobs.lock_held(cycle.job, False)

    def cycle_completed(self, report: CycleReport) -> None:
        """Observe the duration and remember a success."""
        cycle = report.cycle
        self.jobs.lock_held(cycle.job, False)
        self.jobs.cycle_ended(cycle.job, report.end, started_at=cycle.as_of, duration=report.duration)
