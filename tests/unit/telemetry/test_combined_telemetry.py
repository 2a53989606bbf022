from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from messenger_jobs.adapters.telemetry.combined_telemetry import CombinedTelemetry
from messenger_jobs.adapters.telemetry.structured_log import StructuredLog
from messenger_jobs.application.cycle_report import Cycle
from messenger_jobs.application.ports.telemetry import Telemetry

from tests.support.captured_logs import captured_logs

CYCLE = Cycle(job="chat-provision-retry", run_id=UUID(int=7), as_of=datetime(2026, 3, 14, tzinfo=UTC))


class Broken(StructuredLog):
    def cycle_started(self, cycle: Cycle) -> None:
        raise RuntimeError("Flat 12, Ivanov")


def test_receiver_that_fails_is_reported_and_the_others_are_told() -> None:
    with captured_logs() as logs:
        telemetry: Telemetry = CombinedTelemetry(Broken(), StructuredLog())
        telemetry.cycle_started(CYCLE)

    assert logs.events() == ["Broken failed: RuntimeError", "cycle started"]
    assert "Ivanov" not in logs.text


def test_without_receivers_it_is_silent() -> None:
    with captured_logs() as logs:
        CombinedTelemetry().cycle_started(CYCLE)

    assert logs.text == ""
