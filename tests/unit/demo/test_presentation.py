"""What the demo shows of its result."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from attrs import evolve
from messenger_jobs.adapters.postgres.audit import Finding
from messenger_jobs.entrypoints.demo import deals, recordings
from messenger_jobs.entrypoints.demo.arrivals import Arrivals
from messenger_jobs.entrypoints.demo.presentation import facts, show
from messenger_jobs.entrypoints.demo.results import (
    DealResult,
    DemoResult,
    Finished,
    Harm,
    RecordingResult,
)
from rich.console import Console


def a_result(**changes: Any) -> DemoResult:
    """Everything ended as its scenario says, in 7 rows each."""
    result = DemoResult(
        deals=[
            DealResult(
                scenario=scenario,
                status=scenario.ends,
                deals=7,
                chats=7,
                feed_entries=7,
                events=7 * scenario.events,
            )
            for scenario in deals.SCENARIOS
        ],
        recordings=[
            RecordingResult(
                scenario=scenario,
                status=scenario.ends,
                finalization=scenario.finalization,
                recordings=7,
                most_attempts=int(scenario.looked_at),
                events=7 * scenario.events,
                hints=7 * scenario.hints,
            )
            for scenario in recordings.SCENARIOS
        ],
        arrivals=Arrivals(events=7, repeated=1, missing=0, uncommitted=0, disordered=0),
        findings=[Finding(claim="a deal has at most one chat", violations=0)],
        without_bucket=Harm(failed=0, attempts=0),
        killed_at=Finished(deals=1234, recordings=567),
        seconds=16.4,
    )
    return evolve(result, **changes)


def shown(result: DemoResult) -> list[str]:
    output = StringIO()
    show(Console(file=output, width=80), result)
    return output.getvalue().splitlines()


def test_every_scenario_is_one_line_of_a_narrow_terminal() -> None:
    lines = shown(a_result())

    for story in (scenario.story for scenario in (*deals.SCENARIOS, *recordings.SCENARIOS)):
        (line,) = [line for line in lines if story in line]
        assert line.rstrip().endswith("✓")
    assert "The worker was killed after 1234 deals and 567 recordings. All of it took 16 s." in lines
    assert lines[-1] == "Nothing was lost, nothing was done twice."


@pytest.mark.parametrize(
    "changes",
    [
        {"status": "Failed"},
        {"finalization": "Pending"},
        {"events": 6},
        {"hints": 8},
        {"most_attempts": 0},
    ],
    ids=str,
)
def test_recording_that_did_not_end_as_expected_is_marked(changes: dict[str, Any]) -> None:
    first, *others = a_result().recordings
    result = a_result(recordings=[evolve(first, **changes), *others])

    lines = shown(result)

    assert not result.proven
    assert facts(result)["proven"] is False
    (line,) = [line for line in lines if "its callback was lost" in line]
    assert line.rstrip().endswith("✗")
    assert lines[-1] == "Something went wrong."


def test_deal_that_did_not_end_as_expected_is_no_proof() -> None:
    first, *others = a_result().deals

    assert not a_result(deals=[evolve(first, status="Failed"), *others]).proven


@pytest.mark.parametrize("harm", [Harm(failed=1, attempts=0), Harm(failed=0, attempts=3)], ids=str)
def test_harm_by_the_missing_bucket_is_told(harm: Harm) -> None:
    result = a_result(without_bucket=harm)

    assert not result.proven
    assert (
        f"Without the bucket, recordings declared lost: {harm.failed}; attempts counted: {harm.attempts}."
        in shown(result)
    )


def test_broken_invariant_is_no_proof() -> None:
    result = a_result(findings=[Finding(claim="a deal has at most one chat", violations=2)])

    assert not result.proven
    (line,) = [line for line in shown(result) if "a deal has at most one chat" in line]
    assert line.split()[-1] == "2"
