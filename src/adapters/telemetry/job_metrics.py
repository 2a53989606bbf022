"""What every job shows in the same metrics, told apart by their label ``job``."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from ...application.cycle_report import CycleEnd

_DURATIONS: Final = (0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 180.0, 300.0)
_SUCCESSES: Final = (CycleEnd.COMPLETED, CycleEnd.OUT_OF_TIME)


class JobMetrics:
    """Last success, durations, lock and faults of each of ``jobs``, there from the start.

    A job that never succeeded shows the time 0, not nothing. A cycle that ran out of time was a success, one that was
    skipped or aborted was not; so on a replica that never holds the lock the time stays 0, and an alert asks for the
    maximum over all replicas.
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
            "1 while this replica works on the job under its lock.",
            ["job"],
            registry=registry,
        )
        self._configuration_faults = Counter(
            "messenger_job_configuration_faults_total",
            "Times that the job met something that a person must set up.",
            ["job"],
            registry=registry,
        )
        self._defects = Counter(
            "messenger_job_defects_total",
            "Times that the job met a programming error of its own.",
            ["job"],
            registry=registry,
        )
        for job in jobs:
            for metric in (self._last_success, self._lock_held, self._configuration_faults, self._defects):
                metric.labels(job)

    def lock_held(self, job: str, held: bool) -> None:
        """Whether this replica holds the job's lock."""
        self._lock_held.labels(job).set(held)

    def configuration_fault(self, job: str) -> None:
        """Count it; as long as the fault lasts, every cycle does."""
        self._configuration_faults.labels(job).inc()

    def defect(self, job: str) -> None:
        """Count it."""
        self._defects.labels(job).inc()

    def cycle_ended(self, job: str, end: CycleEnd, *, started_at: datetime, duration: timedelta) -> None:
        """Observe the duration, and remember a success."""
        self._cycle_duration.labels(job, end.value).observe(duration.total_seconds())
        if end in _SUCCESSES:
            self._last_success.labels(job).set((started_at + duration).timestamp())
