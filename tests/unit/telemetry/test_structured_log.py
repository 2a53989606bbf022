from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from messenger_jobs.adapters.telemetry.structured_log import StructuredLog
from messenger_jobs.application.cycle_report import AttemptReport, Cycle, CycleEnd, CycleReport, Outcome
from messenger_jobs.application.ports.errors import DatabaseUnavailable, Misconfigured, RowRolledBack
from messenger_jobs.application.ports.telemetry import Telemetry

from tests.support.captured_logs import LogLines, captured_logs

CYCLE = Cycle(
    job="chat-provision-retry",
    run_id=UUID(int=7),
    as_of=datetime(2026, 3, 14, 9, 26, 53, 589793, tzinfo=UTC),
)
DEAL, CHAT = UUID(int=1), UUID(int=2)
ON_EVERY_LINE = {"job": "chat-provision-retry", "job_run_id": str(UUID(int=7))}
OUTAGE = DatabaseUnavailable("CONNECTION_LOST", "the connection to the database failed")


def a_report(end: CycleEnd, counts: dict[Outcome, int] | None = None) -> CycleReport:
    return CycleReport(cycle=CYCLE, end=end, duration=timedelta(seconds=1.2345), counts=counts or {})


def an_attempt(
    outcome: Outcome, *, attempts: int | None = None, error_code: str | None = None
) -> AttemptReport:
    subject = {"deal_id": DEAL} | ({"chat_id": CHAT} if outcome is Outcome.PROVISIONED else {})
    return AttemptReport(outcome=outcome, subject=subject, attempts=attempts, error_code=error_code)


def an_aborted_cycle(telemetry: Telemetry, code: str = "CONNECTION_LOST") -> None:
    telemetry.cycle_aborted(CYCLE, code)
    telemetry.cycle_completed(a_report(CycleEnd.ABORTED))


@pytest.mark.parametrize(
    ("happens", "line"),
    [
        pytest.param(
            lambda to: to.cycle_started(CYCLE),
            {"level": "info", "event": "cycle started", "as_of": "2026-03-14T09:26:53.589793+00:00"},
            id="started",
        ),
        pytest.param(
            lambda to: to.cycle_skipped(CYCLE), {"level": "info", "event": "cycle skipped"}, id="skipped"
        ),
        pytest.param(
            lambda to: to.batch_claimed(CYCLE, 42),
            {"level": "info", "event": "batch claimed", "rows": 42},
            id="batch",
        ),
        pytest.param(
            lambda to: to.attempted(CYCLE, an_attempt(Outcome.PROVISIONED, attempts=3)),
            {
                "level": "info",
                "event": "chat provisioned",
                "deal_id": str(DEAL),
                "chat_id": str(CHAT),
                "attempts": 3,
            },
            id="provisioned",
        ),
        pytest.param(
            lambda to: to.attempted(
                CYCLE, an_attempt(Outcome.RETRIED, attempts=2, error_code="ProvisionGuard:NO_MEMBERS")
            ),
            {
                "level": "warning",
                "event": "provision retry",
                "deal_id": str(DEAL),
                "attempts": 2,
                "error_code": "ProvisionGuard:NO_MEMBERS",
            },
            id="retry",
        ),
        pytest.param(
            lambda to: to.attempted(
                CYCLE, an_attempt(Outcome.FAILED, attempts=8, error_code="ProvisionGuard:EMPTY_TITLE")
            ),
            {
                "level": "error",
                "event": "provision failed",
                "deal_id": str(DEAL),
                "poison": True,
                "attempts": 8,
                "error_code": "ProvisionGuard:EMPTY_TITLE",
            },
            id="poison",
        ),
        pytest.param(
            lambda to: to.attempted(CYCLE, an_attempt(Outcome.SKIPPED)),
            {"level": "debug", "event": "row skipped", "deal_id": str(DEAL)},
            id="row skipped",
        ),
        pytest.param(
            lambda to: to.row_rolled_back(CYCLE, RowRolledBack("40P01", "a deadlock"), DEAL),
            {
                "level": "warning",
                "event": "row rolled back",
                "row": str(DEAL),
                "error_code": "40P01",
            },
            id="rolled back",
        ),
        pytest.param(
            lambda to: to.configuration_fault(CYCLE, Misconfigured("42P01", "a table is missing")),
            {
                "level": "error",
                "event": "configuration fault",
                "error_code": "42P01",
                "reason": "a table is missing",
            },
            id="configuration",
        ),
        pytest.param(
            lambda to: to.lock_lost(CYCLE), {"level": "warning", "event": "lock lost"}, id="lock lost"
        ),
        pytest.param(
            lambda to: to.cycle_aborted(CYCLE, "53100"),
            {
                "level": "warning",
                "event": "cycle aborted",
                "error_code": "53100",
                "reason": "the database's disk is full",
            },
            id="aborted",
        ),
        pytest.param(
            lambda to: to.cycle_completed(
                a_report(
                    CycleEnd.OUT_OF_TIME,
                    {Outcome.PROVISIONED: 5, Outcome.FAILED: 1, Outcome.ROLLED_BACK: 2},
                )
            ),
            {
                "level": "info",
                "event": "cycle completed",
                "end": "out_of_time",
                "provisioned": 5,
                "retried": 0,
                "failed": 1,
                "rolled_back": 2,
                "duration_ms": 1234,
            },
            id="completed",
        ),
    ],
)
def test_every_event_is_one_line_with_its_fields(
    happens: Callable[[Telemetry], None], line: dict[str, Any]
) -> None:
    with captured_logs() as logs:
        happens(StructuredLog())

    assert logs.without_time() == [ON_EVERY_LINE | line]


def test_times_are_utc() -> None:
    with captured_logs() as logs:
        StructuredLog().cycle_started(CYCLE)

    assert datetime.fromisoformat(logs.parsed[0]["timestamp"]).utcoffset() == timedelta(0)


def test_defect_tells_its_class_and_place_but_not_its_message() -> None:
    with captured_logs() as logs:
        try:
            raise KeyError("Flat 12, Ivanov")
        except KeyError as error:
            StructuredLog().defect(CYCLE, error, DEAL)

    (line,) = logs.parsed
    assert (line["level"], line["event"], line["error_code"]) == ("error", "defect", "KeyError")
    assert line["row"] == str(DEAL)
    assert "test_defect_tells_its_class" in line["frames"][-1]
    assert "Ivanov" not in logs.text


def visible(logs: LogLines) -> list[str]:
    return [line["event"] for line in logs.parsed if line["level"] != "debug"]


def test_outage_is_said_once_and_its_end_once() -> None:
    with captured_logs() as logs:
        telemetry = StructuredLog()
        for _ in range(3):
            telemetry.row_rolled_back(CYCLE, OUTAGE, DEAL)
            an_aborted_cycle(telemetry)
        telemetry.cycle_completed(a_report(CycleEnd.COMPLETED))
        telemetry.cycle_completed(a_report(CycleEnd.COMPLETED))

    assert visible(logs) == [
        "row rolled back",
        "cycle aborted",
        "cycle recovered",
        "cycle completed",
        "cycle completed",
    ]


def test_outage_of_another_kind_is_a_change_of_state() -> None:
    with captured_logs() as logs:
        telemetry = StructuredLog()
        an_aborted_cycle(telemetry, "CONNECTION_LOST")
        an_aborted_cycle(telemetry, "NO_ANSWER")

    assert visible(logs) == ["cycle aborted", "cycle aborted"]


def test_lasting_configuration_fault_is_an_error_once() -> None:
    with captured_logs() as logs:
        telemetry = StructuredLog()
        for _ in range(2):
            telemetry.configuration_fault(CYCLE, Misconfigured("42P01", "a table is missing"))
            an_aborted_cycle(telemetry, "42P01")

    assert visible(logs) == ["configuration fault", "cycle aborted"]


def test_skipped_cycle_ends_an_outage() -> None:
    with captured_logs() as logs:
        telemetry = StructuredLog()
        an_aborted_cycle(telemetry)
        telemetry.cycle_skipped(CYCLE)
        an_aborted_cycle(telemetry)

    assert visible(logs) == ["cycle aborted", "cycle recovered", "cycle skipped", "cycle aborted"]


def test_work_done_before_an_abort_is_shown() -> None:
    with captured_logs() as logs:
        StructuredLog().cycle_completed(a_report(CycleEnd.ABORTED, {Outcome.PROVISIONED: 9}))

    (line,) = logs.parsed
    assert (line["level"], line["provisioned"], line["end"]) == ("info", 9, "aborted")
