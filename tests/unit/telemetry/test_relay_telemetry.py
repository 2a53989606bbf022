from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from messenger_jobs.adapters.telemetry.cycle_metrics import CycleMetrics
from messenger_jobs.adapters.telemetry.outbox_backlog_metrics import OutboxBacklogMetrics
from messenger_jobs.adapters.telemetry.relay_combined import CombinedRelayTelemetry
from messenger_jobs.adapters.telemetry.relay_log import RelayLog
from messenger_jobs.adapters.telemetry.relay_metrics import RelayMetrics
from messenger_jobs.application.cycle_report import Cycle, CycleEnd
from messenger_jobs.application.ports.errors import DatabaseUnavailable, Misconfigured
from messenger_jobs.application.ports.outbox_queue import OutboxBacklog
from messenger_jobs.application.ports.relay_telemetry import RelayTelemetry
from messenger_jobs.application.relay_report import MessageFailure, PassReport
from messenger_jobs.application.trouble import Trouble, TroubleKind
from prometheus_client import CollectorRegistry

from tests.support.captured_logs import LogLines, captured_logs

RUN = UUID(int=7)
EVENT = UUID(int=1)
NOW = datetime(2026, 3, 14, 9, 26, 53, tzinfo=UTC)
JOB = {"job": "outbox-relay"}
ON_EVERY_LINE = {"job": "outbox-relay", "job_run_id": str(RUN)}
OUTAGE = Trouble(kind=TroubleKind.BROKER, code="Kafka:UNREACHABLE")
DATABASE_GONE = Trouble(
    kind=TroubleKind.DATABASE,
    code="CONNECTION_LOST",
    error=DatabaseUnavailable("CONNECTION_LOST", "the connection to the database failed"),
)
MISCONFIGURED = Trouble(
    kind=TroubleKind.CONFIGURATION, code="42P01", error=Misconfigured("42P01", "a table is missing")
)


def a_failure(attempts: int = 1) -> MessageFailure:
    return MessageFailure(event_id=EVENT, topic="a-topic", error_code="Kafka:TOO_LARGE", attempts=attempts)


FAILURE = {"event_id": str(EVENT), "topic": "a-topic", "error_code": "Kafka:TOO_LARGE", "attempts": 1}


def a_pass(end: CycleEnd = CycleEnd.COMPLETED, **counts: Any) -> PassReport:
    return PassReport(run_id=RUN, started_at=NOW, duration=timedelta(seconds=2), end=end, **counts)


def a_pass_line(level: str, end: str = "completed", **counts: int) -> dict[str, Any]:
    nothing = dict.fromkeys(("published", "failed", "dead", "held_back"), 0)
    return {
        "level": level,
        "event": "outbox published",
        "end": end,
        "duration_ms": 2000,
        **nothing,
        **counts,
    }


@pytest.mark.parametrize(
    ("happens", "line"),
    [
        pytest.param(
            lambda to: to.lock_acquired(RUN), {"level": "info", "event": "relay started"}, id="acquired"
        ),
        pytest.param(
            lambda to: to.lock_released(RUN), {"level": "debug", "event": "relay stopped"}, id="released"
        ),
        pytest.param(
            lambda to: to.standing_by(RUN), {"level": "info", "event": "cycle skipped"}, id="standing by"
        ),
        pytest.param(lambda to: to.lock_lost(RUN), {"level": "warning", "event": "lock lost"}, id="lost"),
        pytest.param(
            lambda to: to.message_failed(RUN, a_failure()),
            {"level": "warning", "event": "message not published", **FAILURE},
            id="failed",
        ),
        pytest.param(
            lambda to: to.message_failed(RUN, a_failure(attempts=2)),
            {"level": "debug", "event": "message not published", **FAILURE, "attempts": 2},
            id="failed again",
        ),
        pytest.param(
            lambda to: to.message_parked(RUN, a_failure()),
            {"level": "error", "event": "message parked", **FAILURE},
            id="parked",
        ),
        pytest.param(lambda to: to.pass_finished(a_pass()), a_pass_line("debug"), id="nothing to do"),
        pytest.param(
            lambda to: to.pass_finished(a_pass(published=3, failed=1, held_back=2)),
            a_pass_line("info", published=3, failed=1, held_back=2),
            id="published",
        ),
        pytest.param(
            lambda to: to.pass_finished(a_pass(CycleEnd.ABORTED, parked=1)),
            a_pass_line("info", "aborted", dead=1),
            id="parked and aborted",
        ),
        pytest.param(
            lambda to: to.pruned(RUN, 12),
            {"level": "info", "event": "outbox pruned", "messages": 12},
            id="pruned",
        ),
        pytest.param(
            lambda to: to.trouble_began(RUN, OUTAGE),
            {
                "level": "warning",
                "event": "outage began",
                "source": "broker",
                "error_code": "Kafka:UNREACHABLE",
            },
            id="broker",
        ),
        pytest.param(
            lambda to: to.trouble_began(RUN, DATABASE_GONE),
            {
                "level": "warning",
                "event": "outage began",
                "source": "database",
                "error_code": "CONNECTION_LOST",
            },
            id="database",
        ),
        pytest.param(
            lambda to: to.trouble_began(RUN, MISCONFIGURED),
            {
                "level": "error",
                "event": "configuration fault",
                "error_code": "42P01",
                "reason": "a table is missing",
            },
            id="configuration",
        ),
        pytest.param(
            lambda to: to.trouble_ended(RUN, OUTAGE),
            {
                "level": "info",
                "event": "outage ended",
                "source": "broker",
                "error_code": "Kafka:UNREACHABLE",
            },
            id="ended",
        ),
    ],
)
def test_every_event_is_one_line_with_its_fields(
    happens: Callable[[RelayTelemetry], None], line: dict[str, Any]
) -> None:
    with captured_logs() as logs:
        happens(RelayLog())

    assert logs.without_time() == [ON_EVERY_LINE | line]


def test_defect_tells_its_class_and_place_but_not_its_message() -> None:
    with captured_logs() as logs:
        try:
            raise KeyError("Flat 12, Ivanov")
        except KeyError as error:
            defect = Trouble(kind=TroubleKind.DEFECT, code="Defect:KeyError", error=error)
            RelayLog().trouble_began(RUN, defect)

    (line,) = logs.parsed
    assert (line["level"], line["event"], line["error_code"]) == ("error", "defect", "KeyError")
    assert "test_defect_tells_its_class" in line["frames"][-1]
    assert "Ivanov" not in logs.text


def visible(logs: LogLines) -> list[str]:
    return [line["event"] for line in logs.parsed if line["level"] != "debug"]


def test_standing_by_is_said_once_and_so_is_taking_over() -> None:
    with captured_logs() as logs:
        telemetry = RelayLog()
        for _ in range(3):
            telemetry.standing_by(RUN)
        telemetry.lock_acquired(RUN)
        telemetry.lock_released(RUN)
        telemetry.lock_acquired(RUN)
        telemetry.standing_by(RUN)

    assert visible(logs) == ["cycle skipped", "relay started", "cycle skipped"]


def test_lock_that_comes_and_goes_in_trouble_is_no_news() -> None:
    with captured_logs() as logs:
        telemetry = RelayLog()
        telemetry.lock_acquired(RUN)
        telemetry.trouble_began(RUN, OUTAGE)
        for _ in range(3):
            telemetry.lock_released(RUN)
            telemetry.standing_by(RUN)
            telemetry.lock_acquired(RUN)
        telemetry.trouble_ended(RUN, OUTAGE)
        telemetry.standing_by(RUN)

    assert visible(logs) == ["relay started", "outage began", "outage ended", "cycle skipped"]


# Metrics


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def metrics(registry: CollectorRegistry) -> RelayMetrics:
    return RelayMetrics(registry, CycleMetrics(registry, ["outbox-relay", "chat-provision-retry"]).jobs)


def lock_held(registry: CollectorRegistry) -> float | None:
    return registry.get_sample_value("messenger_job_lock_held", JOB)


def last_success(registry: CollectorRegistry) -> float | None:
    return registry.get_sample_value("messenger_job_last_success_timestamp_seconds", JOB)


def test_everything_is_there_from_the_start(registry: CollectorRegistry, metrics: RelayMetrics) -> None:
    del metrics
    OutboxBacklogMetrics(registry)

    assert (lock_held(registry), last_success(registry)) == (0, 0)
    for name in ("published", "dead"):
        assert registry.get_sample_value(f"messenger_outbox_{name}_total") == 0


def test_published_and_parked_messages_are_counted(
    registry: CollectorRegistry, metrics: RelayMetrics
) -> None:
    metrics.pass_finished(a_pass(published=3))
    metrics.pass_finished(a_pass(CycleEnd.ABORTED, published=2))
    metrics.message_parked(RUN, a_failure())
    metrics.message_failed(RUN, a_failure())

    assert registry.get_sample_value("messenger_outbox_published_total") == 5
    assert registry.get_sample_value("messenger_outbox_dead_total") == 1


@pytest.mark.parametrize("gone", ["lock_released", "lock_lost"])
def test_lock_is_held_over_many_passes(registry: CollectorRegistry, metrics: RelayMetrics, gone: str) -> None:
    metrics.standing_by(RUN)
    assert lock_held(registry) == 0

    metrics.lock_acquired(RUN)
    metrics.pass_finished(a_pass())
    assert lock_held(registry) == 1

    getattr(metrics, gone)(RUN)
    assert lock_held(registry) == 0


@pytest.mark.parametrize("end", [CycleEnd.COMPLETED, CycleEnd.ABORTED, CycleEnd.LOCK_LOST])
def test_pass_is_a_cycle_of_the_job(
    registry: CollectorRegistry, metrics: RelayMetrics, end: CycleEnd
) -> None:
    metrics.pass_finished(a_pass(end))

    labels = JOB | {"outcome": end.value}
    assert registry.get_sample_value("messenger_job_cycle_duration_seconds_sum", labels) == 2
    succeeded = end is CycleEnd.COMPLETED
    assert last_success(registry) == ((NOW + timedelta(seconds=2)).timestamp() if succeeded else 0)


def test_relay_and_cycles_share_their_metrics(registry: CollectorRegistry) -> None:
    cycles = CycleMetrics(registry, ["chat-provision-retry", "outbox-relay"])
    relay = RelayMetrics(registry, cycles.jobs)

    cycles.cycle_started(Cycle(job="chat-provision-retry", run_id=RUN, as_of=NOW))
    relay.lock_acquired(RUN)

    assert lock_held(registry) == 1
    assert registry.get_sample_value("messenger_job_lock_held", {"job": "chat-provision-retry"}) == 1


def backlog_values(registry: CollectorRegistry) -> tuple[float | None, float | None]:
    return (
        registry.get_sample_value("messenger_outbox_backlog"),
        registry.get_sample_value("messenger_outbox_oldest_age_seconds"),
    )


@pytest.mark.parametrize(
    ("unpublished", "oldest", "values"),
    [
        (3, NOW - timedelta(hours=1), (3, 3600)),
        (0, None, (0, 0)),
        (1, NOW + timedelta(seconds=1), (1, 0)),
    ],
    ids=["some", "none", "the database's clock is ahead"],
)
def test_backlog_is_shown_with_the_age_of_its_oldest_message(
    registry: CollectorRegistry, unpublished: int, oldest: datetime | None, values: tuple[float, float]
) -> None:
    backlog = OutboxBacklog(unpublished=unpublished, dead=9, oldest_created_at=oldest)
    OutboxBacklogMetrics(registry).measured(backlog, as_of=NOW)

    assert backlog_values(registry) == values


def test_backlog_that_cannot_be_measured_is_not_a_number(registry: CollectorRegistry) -> None:
    metrics = OutboxBacklogMetrics(registry)
    metrics.measured(OutboxBacklog(unpublished=3, dead=0, oldest_created_at=NOW), as_of=NOW)

    metrics.unknown()

    assert all(value is not None and math.isnan(value) for value in backlog_values(registry))


# Combined


class Broken:
    def __getattr__(self, name: str) -> Callable[..., None]:
        def fail(*arguments: object) -> None:
            raise ValueError("Flat 12, Ivanov")

        return fail


EVERYTHING: list[Callable[[RelayTelemetry], None]] = [
    lambda to: to.lock_acquired(RUN),
    lambda to: to.standing_by(RUN),
    lambda to: to.lock_lost(RUN),
    lambda to: to.lock_released(RUN),
    lambda to: to.message_failed(RUN, a_failure()),
    lambda to: to.message_parked(RUN, a_failure()),
    lambda to: to.pass_finished(a_pass()),
    lambda to: to.pruned(RUN, 1),
    lambda to: to.trouble_began(RUN, OUTAGE),
    lambda to: to.trouble_ended(RUN, OUTAGE),
]


@pytest.mark.parametrize("number", range(len(EVERYTHING)))
def test_every_receiver_is_told_although_another_one_is_broken(number: int) -> None:
    with captured_logs() as alone:
        EVERYTHING[number](RelayLog())
    with captured_logs() as logs:
        broken: Any = Broken()
        EVERYTHING[number](CombinedRelayTelemetry(broken, RelayLog()))

    assert logs.events()[-1:] == alone.events()
    assert "ValueError" in logs.text
    assert "Ivanov" not in logs.text


def test_without_receivers_it_is_silent() -> None:
    for happens in EVERYTHING:
        happens(CombinedRelayTelemetry())
