"""Counters and gauges of the periodic jobs and their cycles."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from ...application.chat_provision_retry import CHAT_PROVISION_RETRY
from ...application.cycle_report import AttemptReport, Cycle, CycleEnd, CycleReport, Outcome
from ...application.ports.errors import PortError
from ...application.recording_finalize_retry import RECORDING_FINALIZE_RETRY

_DURATIONS: Final = (0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 180.0, 300.0)
_SUCCESSES: Final = (CycleEnd.COMPLETED, CycleEnd.OUT_OF_TIME)


class CycleMetrics:
    """A `Telemetry` that counts into ``registry``; ``jobs`` are those that this process runs.

    Their gauges are there from the start: a job that never succeeded shows the time 0, not nothing. A cycle that
    ran out of time was a success, one that was skipped or aborted was not; so on a replica that never holds the
    lock the time stays 0, and an alert asks for the maximum over all replicas.
    """

    def __init__(self, registry: CollectorRegistry, jobs: Iterable[str]) -> None:
        self._last_success = Gauge(
            "messenger_job_last_success_timestamp_seconds",
            "When a cycle of the job last ended well on this replica (Unix time, 0: never).",
            ["job"],
            registry=registry,
        )
        self._cycle_duration = Histogram(
            "messenger_job_cycle_duration_seconds",
            "How long cycles of the job took, by how they ended.",
            ["job", "outcome"],
            buckets=_DURATIONS,
            registry=registry,
        )
        self._lock_held = Gauge(
            "messenger_job_lock_held",
            "1 while this replica runs a cycle of the job under its lock.",
            ["job"],
            registry=registry,
        )
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
        for job in jobs:
            self._last_success.labels(job)
            self._lock_held.labels(job)

    def cycle_started(self, cycle: Cycle) -> None:
        """The lock is held."""
        self._lock_held.labels(cycle.job).set(1)

    def cycle_skipped(self, cycle: Cycle) -> None:
        """Count a cycle without duration."""
        self._cycle_duration.labels(cycle.job, CycleEnd.SKIPPED.value).observe(0)

    def batch_claimed(self, cycle: Cycle, rows: int) -> None:
        """Nothing to count."""

    def attempted(self, cycle: Cycle, report: AttemptReport) -> None:
        """Count the attempt by job and outcome."""
        counter = self._attempts.get((cycle.job, report.outcome))
        if counter is not None:
            counter.inc()

    def row_rolled_back(self, cycle: Cycle, error: PortError) -> None:
        """Nothing to count."""

    def defect(self, cycle: Cycle, error: BaseException) -> None:
        """Nothing to count."""

    def configuration_fault(self, cycle: Cycle, error: PortError) -> None:
        """Nothing to count: the aborted cycle is counted."""

    def lock_lost(self, cycle: Cycle) -> None:
        """The lock is not known to be held."""
        self._lock_held.labels(cycle.job).set(0)

    def cycle_aborted(self, cycle: Cycle, code: str) -> None:
        """The lock is about to be released, whatever comes after."""
        self._lock_held.labels(cycle.job).set(0)

    def cycle_completed(self, report: CycleReport) -> None:
        """Observe the duration and remember a success."""
        job = report.cycle.job
        self._lock_held.labels(job).set(0)
        self._cycle_duration.labels(job, report.end.value).observe(report.duration.total_seconds())
        if report.end in _SUCCESSES:
            ended = report.cycle.as_of + report.duration
            self._last_success.labels(job).set(ended.timestamp())
