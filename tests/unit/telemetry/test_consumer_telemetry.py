from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from messenger_jobs.adapters.telemetry.consumer_combined import CombinedConsumerTelemetry
from messenger_jobs.adapters.telemetry.consumer_log import ConsumerLog
from messenger_jobs.adapters.telemetry.consumer_metrics import ConsumerMetrics
from messenger_jobs.application.cycle_report import AttemptReport, Outcome
from messenger_jobs.application.ports.consumer_telemetry import ConsumerTelemetry, DeadLetter, MessagePlace
from messenger_jobs.application.ports.errors import DatabaseUnavailable, Misconfigured
from messenger_jobs.application.trouble import Trouble, TroubleKind
from prometheus_client import CollectorRegistry

from tests.support.builders import some_id
from tests.support.captured_logs import captured_logs

RUN, DEAL, CHAT = some_id(7), some_id(1), some_id(2)
PLACE = MessagePlace(partition=3, offset=42)
ON_EVERY_LINE = {"job": "deal-created", "job_run_id": str(RUN)}
ON_EVERY_MESSAGE = ON_EVERY_LINE | {"partition": 3, "offset": 42}
LETTER = DeadLetter(reason="Message:NOT_JSON", sentence="The message is not JSON.")
OUTAGE = Trouble(
    kind=TroubleKind.DATABASE,
    code="CONNECTION_LOST",
    error=DatabaseUnavailable("CONNECTION_LOST", "the connection to the database failed"),
)
FAULT = Trouble(
    kind=TroubleKind.CONFIGURATION,
    code="UNKNOWN_TOPIC",
    error=Misconfigured("UNKNOWN_TOPIC", "there is no topic"),
)


def a_report(outcome: Outcome, attempts: int | None = 1, error_code: str | None = None) -> AttemptReport:
    subject = {"deal_id": DEAL} | ({"chat_id": CHAT} if outcome is Outcome.PROVISIONED else {})
    return AttemptReport(outcome=outcome, subject=subject, attempts=attempts, error_code=error_code)


Happening = Callable[[ConsumerTelemetry], None]


def handled(outcome: Outcome, **fields: Any) -> Happening:
    return lambda to: to.handled(RUN, PLACE, a_report(outcome, **fields))


@pytest.mark.parametrize(
    ("happens", "line"),
    [
        pytest.param(
            lambda to: to.partitions_assigned(RUN, {2, 0}),
            ON_EVERY_LINE | {"level": "info", "event": "partitions assigned", "partitions": [0, 2]},
            id="assigned",
        ),
        pytest.param(
            handled(Outcome.PROVISIONED),
            ON_EVERY_MESSAGE
            | {
                "level": "info",
                "event": "chat provisioned",
                "deal_id": str(DEAL),
                "chat_id": str(CHAT),
                "attempts": 1,
            },
            id="provisioned",
        ),
        pytest.param(
            handled(Outcome.RETRIED, error_code="ProvisionGuard:NO_MEMBERS"),
            ON_EVERY_MESSAGE
            | {
                "level": "warning",
                "event": "provision retry",
                "deal_id": str(DEAL),
                "attempts": 1,
                "error_code": "ProvisionGuard:NO_MEMBERS",
            },
            id="retried",
        ),
        pytest.param(
            handled(Outcome.FAILED, error_code="ProvisionGuard:NO_MEMBERS"),
            ON_EVERY_MESSAGE
            | {
                "level": "error",
                "event": "provision failed",
                "deal_id": str(DEAL),
                "attempts": 1,
                "error_code": "ProvisionGuard:NO_MEMBERS",
                "poison": True,
            },
            id="failed",
        ),
        pytest.param(
            handled(Outcome.DUPLICATE),
            ON_EVERY_MESSAGE | {"level": "debug", "event": "deal known", "deal_id": str(DEAL), "attempts": 1},
            id="duplicate",
        ),
        pytest.param(
            lambda to: to.dead_lettered(RUN, PLACE, LETTER),
            ON_EVERY_MESSAGE
            | {
                "level": "error",
                "event": "message dead-lettered",
                "error_code": "Message:NOT_JSON",
                "reason": "The message is not JSON.",
                "value_lost": False,
            },
            id="dead letter",
        ),
        pytest.param(
            lambda to: to.trouble_began(RUN, OUTAGE),
            ON_EVERY_LINE
            | {
                "level": "warning",
                "event": "outage began",
                "source": "database",
                "error_code": "CONNECTION_LOST",
            },
            id="outage",
        ),
        pytest.param(
            lambda to: to.trouble_began(RUN, FAULT),
            ON_EVERY_LINE
            | {
                "level": "error",
                "event": "configuration fault",
                "error_code": "UNKNOWN_TOPIC",
                "reason": "there is no topic",
            },
            id="configuration",
        ),
        pytest.param(
            lambda to: to.trouble_ended(RUN, OUTAGE),
            ON_EVERY_LINE
            | {
                "level": "info",
                "event": "outage ended",
                "source": "database",
                "error_code": "CONNECTION_LOST",
            },
            id="outage over",
        ),
    ],
)
def test_line(happens: Happening, line: dict[str, Any]) -> None:
    with captured_logs() as logs:
        happens(ConsumerLog())
    assert logs.without_time() == [line]


@pytest.mark.parametrize("place", [PLACE, None])
def test_defect_names_its_class_and_place_but_not_what_it_says(place: MessagePlace | None) -> None:
    with captured_logs() as logs:
        try:
            raise KeyError("Ivan Petrov")
        except KeyError as error:
            ConsumerLog().defect(RUN, place, error)
    (line,) = logs.without_time()
    assert (line["level"], line["event"], line["error_code"]) == ("error", "defect", "KeyError")
    assert line.get("offset") == (42 if place else None)
    assert line["frames"]
    assert "Ivan" not in logs.text


def test_metrics_are_there_from_the_start() -> None:
    registry = CollectorRegistry()
    ConsumerMetrics(registry)
    for outcome in ("provisioned", "retried", "failed", "duplicate"):
        assert registry.get_sample_value("messenger_deal_created_handled_total", {"outcome": outcome}) == 0
    for kind in ("database", "broker", "configuration", "defect"):
        assert registry.get_sample_value("messenger_deal_created_outage", {"kind": kind}) == 0
    for name in ("defects_total", "dead_letters_without_value_total", "partitions"):
        assert registry.get_sample_value(f"messenger_deal_created_{name}") == 0


def test_metrics_count() -> None:
    registry = CollectorRegistry()
    metrics = ConsumerMetrics(registry)
    metrics.partitions_assigned(RUN, [1, 2])
    metrics.handled(RUN, PLACE, a_report(Outcome.PROVISIONED))
    metrics.dead_lettered(RUN, PLACE, LETTER)
    metrics.dead_lettered(RUN, PLACE, DeadLetter(reason="Postgres:22001", sentence=".", value_lost=True))
    metrics.defect(RUN, None, KeyError())
    metrics.trouble_began(RUN, OUTAGE)

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"messenger_deal_created_{name}", labels)

    assert value("partitions") == 2
    assert value("handled_total", outcome="provisioned") == 1
    assert value("dead_lettered_total", reason="Message:NOT_JSON") == 1
    assert value("dead_lettered_total", reason="Postgres:22001") == 1
    assert value("dead_letters_without_value_total") == 1
    assert value("defects_total") == 1
    assert value("outage", kind="database") == 1
    metrics.trouble_ended(RUN, OUTAGE)
    assert value("outage", kind="database") == 0


def test_receivers_are_all_told_even_if_one_fails(caplog: pytest.LogCaptureFixture) -> None:
    registry = CollectorRegistry()

    class Broken(ConsumerMetrics):
        def defect(self, run_id: UUID, place: MessagePlace | None, error: BaseException) -> None:
            raise ZeroDivisionError("secret")

    combined = CombinedConsumerTelemetry(Broken(CollectorRegistry()), ConsumerMetrics(registry))
    with caplog.at_level(logging.ERROR):
        combined.defect(RUN, PLACE, KeyError())
        combined.partitions_assigned(RUN, [1])
        combined.handled(RUN, PLACE, a_report(Outcome.DUPLICATE))
        combined.dead_lettered(RUN, PLACE, LETTER)
        combined.trouble_began(RUN, OUTAGE)
    assert registry.get_sample_value("messenger_deal_created_defects_total") == 1
    assert registry.get_sample_value("messenger_deal_created_partitions") == 1
    assert registry.get_sample_value("messenger_deal_created_handled_total", {"outcome": "duplicate"}) == 1
    assert registry.get_sample_value("messenger_deal_created_outage", {"kind": "database"}) == 1
    combined.trouble_ended(RUN, OUTAGE)
    assert registry.get_sample_value("messenger_deal_created_outage", {"kind": "database"}) == 0
    assert [record.getMessage() for record in caplog.records] == ["Broken failed: ZeroDivisionError"]


def test_assignment_that_stays_the_same_is_no_news() -> None:
    with captured_logs("debug") as logs:
        telemetry = ConsumerLog()
        assignments: list[set[int]] = [
            set(),
            {1, 0},
            {0, 1},
            set(),
            set(),
        ]  # the first and the last as in an outage
        for partitions in assignments:
            telemetry.partitions_assigned(RUN, partitions)

    assert [(line["level"], line["partitions"]) for line in logs.parsed] == [
        ("debug", []),
        ("info", [0, 1]),
        ("debug", [0, 1]),
        ("info", []),
        ("debug", []),
    ]
