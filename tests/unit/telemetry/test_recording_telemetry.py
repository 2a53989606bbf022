"""What is said of recordings: log lines, counters and gauges."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from messenger_jobs.adapters.telemetry.cycle_metrics import CycleMetrics
from messenger_jobs.adapters.telemetry.finalization_backlog_metrics import FinalizationBacklogMetrics
from messenger_jobs.adapters.telemetry.structured_log import StructuredLog
from messenger_jobs.application.cycle_report import AttemptReport, Cycle, CycleEnd, CycleReport, Outcome
from messenger_jobs.application.ports.finalization import FinalizationBacklog
from prometheus_client import CollectorRegistry

from tests.support.captured_logs import captured_logs

JOB = "recording-finalize-retry"
NOW = datetime(2026, 3, 14, 9, 26, 53, tzinfo=UTC)
CYCLE = Cycle(job=JOB, run_id=UUID(int=7), as_of=NOW)
RECORDING, SESSION, FILE = UUID(int=1), UUID(int=2), UUID(int=3)
SUBJECT = {"recording_id": RECORDING, "session_id": SESSION}
IDS = {"recording_id": str(RECORDING), "session_id": str(SESSION)}
TIMED_OUT = "Storage:TIMED_OUT"

LINES: dict[Outcome, dict[str, Any]] = {
    Outcome.RECONCILED: {"level": "info", "event": "recording reconciled"},
    Outcome.REPUBLISHED: {"level": "info", "event": "recording republished"},
    Outcome.FAILED: {"level": "error", "event": "recording failed", "failure_reason": "Timeout"},
    Outcome.RETRIED: {"level": "warning", "event": "recording retry"},
    Outcome.QUARANTINED: {"level": "error", "event": "recording quarantined", "poison": True},
    Outcome.DEFERRED: {"level": "debug", "event": "recording deferred"},
    Outcome.CLOSED: {"level": "debug", "event": "row closed"},
    Outcome.RELEASED: {"level": "debug", "event": "row released"},
}
COUNTED = {
    Outcome.RECONCILED: "reconciled",
    Outcome.FAILED: "failed",
    Outcome.REPUBLISHED: "republished",
    Outcome.QUARANTINED: "quarantined",
}


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.mark.parametrize("outcome", LINES)
def test_every_outcome_has_its_line(outcome: Outcome) -> None:
    with captured_logs() as lines:
        StructuredLog().attempted(
            CYCLE, AttemptReport(outcome=outcome, subject=SUBJECT, attempts=2, error_code=TIMED_OUT)
        )

    (line,) = lines.without_time()
    assert line == {
        "job": JOB,
        "job_run_id": str(CYCLE.run_id),
        **IDS,
        "attempts": 2,
        "error_code": TIMED_OUT,
        **LINES[outcome],
    }


def test_adopted_file_is_named() -> None:
    with captured_logs() as lines:
        StructuredLog().attempted(
            CYCLE, AttemptReport(outcome=Outcome.RECONCILED, subject={**SUBJECT, "file_id": FILE})
        )

    assert lines.parsed[0]["file_id"] == str(FILE)


def test_end_of_a_cycle_counts_what_operators_ask_for() -> None:
    report = CycleReport(
        cycle=CYCLE,
        end=CycleEnd.COMPLETED,
        duration=timedelta(seconds=1),
        counts={Outcome.RECONCILED: 3, Outcome.RELEASED: 1},
    )
    with captured_logs() as lines:
        StructuredLog().cycle_completed(report)

    (line,) = lines.parsed
    counts = ("reconciled", "republished", "failed", "quarantined", "released")
    assert [line[name] for name in counts] == [3, 0, 0, 0, 1]
    assert line["duration_ms"] == 1000
    assert "provisioned" not in line


@pytest.mark.parametrize("outcome", Outcome)
def test_attempts_are_counted_by_outcome(registry: CollectorRegistry, outcome: Outcome) -> None:
    CycleMetrics(registry, [JOB]).attempted(CYCLE, AttemptReport(outcome=outcome, subject=SUBJECT))

    for counted, name in COUNTED.items():
        value = registry.get_sample_value(f"messenger_recording_finalize_{name}_total")
        assert value == (1 if counted is outcome else 0)
    assert registry.get_sample_value("messenger_chat_provision_poison_total") == 0


def gauges(registry: CollectorRegistry) -> list[float | None]:
    names = ("backlog", "oldest_age_seconds")
    return [registry.get_sample_value(f"messenger_recording_finalize_{name}") for name in names]


def test_backlog_is_shown_as_it_was_measured(registry: CollectorRegistry) -> None:
    backlog = FinalizationBacklog(
        pending=5, due=2, quarantined=9, oldest_created_at=NOW - timedelta(minutes=2)
    )
    FinalizationBacklogMetrics(registry).measured(backlog, as_of=NOW)

    assert gauges(registry) == [5, 120]


def test_empty_backlog_is_zero_and_an_unknown_one_no_number(registry: CollectorRegistry) -> None:
    metrics = FinalizationBacklogMetrics(registry)
    assert all(value is not None and math.isnan(value) for value in gauges(registry))

    empty = FinalizationBacklog(pending=0, due=0, quarantined=0, oldest_created_at=None)
    metrics.measured(empty, as_of=NOW)
    assert gauges(registry) == [0, 0]

    metrics.unknown()
    assert all(value is not None and math.isnan(value) for value in gauges(registry))
