from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from messenger_jobs.adapters.telemetry.backlog_metrics import ProvisioningBacklogMetrics
from messenger_jobs.adapters.telemetry.cycle_metrics import CycleMetrics
from messenger_jobs.application.cycle_report import AttemptReport, Cycle, CycleEnd, CycleReport, Outcome
from messenger_jobs.application.ports.provisioning import ProvisioningBacklog
from prometheus_client import CollectorRegistry

JOB = "chat-provision-retry"
NOW = datetime(2026, 3, 14, 9, 26, 53, tzinfo=UTC)
CYCLE = Cycle(job=JOB, run_id=UUID(int=7), as_of=NOW)


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def metrics(registry: CollectorRegistry) -> CycleMetrics:
    return CycleMetrics(registry, [JOB])


def a_report(end: CycleEnd) -> CycleReport:
    return CycleReport(cycle=CYCLE, end=end, duration=timedelta(seconds=2))


def lock_held(registry: CollectorRegistry) -> float | None:
    return registry.get_sample_value("messenger_job_lock_held", {"job": JOB})


def last_success(registry: CollectorRegistry) -> float | None:
    return registry.get_sample_value("messenger_job_last_success_timestamp_seconds", {"job": JOB})


def test_everything_is_there_from_the_start(registry: CollectorRegistry, metrics: CycleMetrics) -> None:
    del metrics

    assert lock_held(registry) == 0
    assert last_success(registry) == 0
    for name in ("retried", "succeeded", "poison"):
        assert registry.get_sample_value(f"messenger_chat_provision_{name}_total") == 0


@pytest.mark.parametrize(
    ("outcome", "counted"),
    [
        (Outcome.PROVISIONED, {"succeeded"}),
        (Outcome.RETRIED, {"retried"}),
        (Outcome.FAILED, {"poison"}),
        (Outcome.SKIPPED, set[str]()),
        (Outcome.ROLLED_BACK, set[str]()),
    ],
)
def test_attempts_are_counted_by_outcome(
    registry: CollectorRegistry, metrics: CycleMetrics, outcome: Outcome, counted: set[str]
) -> None:
    metrics.attempted(CYCLE, AttemptReport(outcome=outcome, subject={"deal_id": UUID(int=1)}))

    assert {
        name
        for name in ("succeeded", "retried", "poison")
        if registry.get_sample_value(f"messenger_chat_provision_{name}_total") == 1
    } == counted


def test_attempts_of_another_job_are_not_chats(registry: CollectorRegistry, metrics: CycleMetrics) -> None:
    other = Cycle(job="recording-finalize-retry", run_id=UUID(int=8), as_of=NOW)

    metrics.attempted(other, AttemptReport(outcome=Outcome.FAILED, subject={}))

    assert registry.get_sample_value("messenger_chat_provision_poison_total") == 0


def test_lock_is_held_for_the_length_of_a_cycle(registry: CollectorRegistry, metrics: CycleMetrics) -> None:
    metrics.cycle_started(CYCLE)
    assert lock_held(registry) == 1

    metrics.cycle_completed(a_report(CycleEnd.COMPLETED))
    assert lock_held(registry) == 0


def test_lost_lock_is_not_held(registry: CollectorRegistry, metrics: CycleMetrics) -> None:
    metrics.cycle_started(CYCLE)

    metrics.lock_lost(CYCLE)

    assert lock_held(registry) == 0


def test_cancelled_cycle_leaves_no_lock_behind(registry: CollectorRegistry, metrics: CycleMetrics) -> None:
    metrics.cycle_started(CYCLE)

    metrics.cycle_aborted(CYCLE, "Cancelled")

    assert lock_held(registry) == 0


@pytest.mark.parametrize("end", [end for end in CycleEnd if end is not CycleEnd.SKIPPED])
def test_duration_is_observed_by_outcome(
    registry: CollectorRegistry, metrics: CycleMetrics, end: CycleEnd
) -> None:
    metrics.cycle_completed(a_report(end))

    labels = {"job": JOB, "outcome": end.value}
    assert registry.get_sample_value("messenger_job_cycle_duration_seconds_sum", labels) == 2


def test_skipped_cycles_are_counted(registry: CollectorRegistry, metrics: CycleMetrics) -> None:
    metrics.cycle_skipped(CYCLE)

    labels = {"job": JOB, "outcome": "skipped"}
    assert registry.get_sample_value("messenger_job_cycle_duration_seconds_count", labels) == 1


@pytest.mark.parametrize(
    ("end", "succeeded"),
    [
        (CycleEnd.COMPLETED, True),
        (CycleEnd.OUT_OF_TIME, True),
        (CycleEnd.STOPPED, False),
        (CycleEnd.LOCK_LOST, False),
        (CycleEnd.ABORTED, False),
    ],
)
def test_success_is_a_cycle_that_did_all_it_could(
    registry: CollectorRegistry, metrics: CycleMetrics, end: CycleEnd, succeeded: bool
) -> None:
    metrics.cycle_completed(a_report(end))

    assert last_success(registry) == ((NOW + timedelta(seconds=2)).timestamp() if succeeded else 0)


def backlog_values(registry: CollectorRegistry) -> tuple[float | None, float | None]:
    return (
        registry.get_sample_value("messenger_chat_provision_failed"),
        registry.get_sample_value("messenger_chat_provision_oldest_age_seconds"),
    )


def a_backlog(failed: int, oldest_created_at: datetime | None) -> ProvisioningBacklog:
    return ProvisioningBacklog(
        failed=failed, due=0, waiting=failed, poison=0, oldest_created_at=oldest_created_at
    )


def test_backlog_is_shown_with_the_age_of_its_oldest_row(registry: CollectorRegistry) -> None:
    ProvisioningBacklogMetrics(registry).measured(a_backlog(3, NOW - timedelta(hours=1)), as_of=NOW)

    assert backlog_values(registry) == (3, 3600)


def test_empty_backlog_is_zero(registry: CollectorRegistry) -> None:
    ProvisioningBacklogMetrics(registry).measured(a_backlog(0, None), as_of=NOW)

    assert backlog_values(registry) == (0, 0)


def test_clock_behind_the_database_makes_no_negative_age(registry: CollectorRegistry) -> None:
    ProvisioningBacklogMetrics(registry).measured(a_backlog(1, NOW + timedelta(seconds=1)), as_of=NOW)

    assert backlog_values(registry) == (1, 0)


def test_backlog_that_cannot_be_measured_is_not_a_number(registry: CollectorRegistry) -> None:
    metrics = ProvisioningBacklogMetrics(registry)
    metrics.measured(a_backlog(3, NOW), as_of=NOW)

    metrics.unknown()

    assert all(value is not None and math.isnan(value) for value in backlog_values(registry))
