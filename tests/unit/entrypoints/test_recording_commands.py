"""The commands for recordings, over the memory adapters."""

from __future__ import annotations

import json
from typing import Any

import pytest
from messenger_jobs.domain.evidence import StorageMisconfigured
from messenger_jobs.domain.recording_finalize import FinalizeStatus

from tests.support.recording_command_line import ENABLED, RecordingCommandLine
from tests.support.recordings import ENTRY_ID, RECORDING_ID, a_pair, an_entry

JOB = "recording-finalize-retry"


@pytest.fixture
def command_line() -> RecordingCommandLine:
    return RecordingCommandLine()


def facts_of(command_line: RecordingCommandLine, *arguments: str) -> Any:
    return command_line.json(*arguments, **ENABLED)


def test_run_once_finishes_what_is_due(command_line: RecordingCommandLine) -> None:
    command_line.put_due(file=True)

    facts = facts_of(command_line, "run-once", JOB)

    named = (
        "reconciled",
        "republished",
        "closed",
        "deferred",
        "retried",
        "released",
        "failed",
        "quarantined",
    )
    assert [facts[name] for name in named] == [1, 0, 0, 0, 0, 0, 0, 0]
    assert "provisioned" not in facts
    assert command_line.entry_status is FinalizeStatus.DONE


def test_lost_recording_is_told_at_error_level(command_line: RecordingCommandLine) -> None:
    command_line.put_due(file=False)

    result = command_line.run("run-once", JOB, **ENABLED)

    lines = [json.loads(line) for line in result.stderr.splitlines()]
    (failed,) = [line for line in lines if line["event"] == "recording failed"]
    assert (failed["level"], failed["failure_reason"], failed["recording_id"]) == (
        "error",
        "Timeout",
        str(RECORDING_ID),
    )


def test_fault_of_the_storage_is_told_and_changes_nothing(command_line: RecordingCommandLine) -> None:
    command_line.put_due(file=True)
    command_line.storage.fault = StorageMisconfigured(code="NO_SUCH_BUCKET")

    result = command_line.run("run-once", JOB, **ENABLED)

    lines = [json.loads(line) for line in result.stderr.splitlines()]
    (fault,) = [line for line in lines if line["event"] == "configuration fault"]
    assert (fault["level"], fault["error_code"]) == ("error", "NO_SUCH_BUCKET")
    assert command_line.entry_status is FinalizeStatus.PENDING


def test_dry_run_changes_nothing(command_line: RecordingCommandLine) -> None:
    command_line.put_due(file=True)

    facts = facts_of(command_line, "run-once", JOB, "--dry-run")

    assert facts["reconciled"] == 1
    assert command_line.entry_status is FinalizeStatus.PENDING


def test_status_shows_both_jobs(command_line: RecordingCommandLine) -> None:
    command_line.put_due(file=True)
    _, quarantined = a_pair(1)
    command_line.rows.put(
        command_line.rows.finalizations,
        an_entry(id=quarantined.id, recording_id=quarantined.recording_id, status=FinalizeStatus.QUARANTINED),
    )

    chat, recording, _ = facts_of(command_line, "status")

    assert (chat["job"], chat["failed"]) == ("chat-provision-retry", 0)
    assert {name: recording[name] for name in ("job", "pending", "due", "waiting", "quarantined")} == {
        "job": JOB,
        "pending": 1,
        "due": 1,
        "waiting": 0,
        "quarantined": 1,
    }
    assert recording["oldest_age_seconds"] == 3600


@pytest.mark.parametrize("arguments", [(str(ENTRY_ID),), (str(RECORDING_ID),), ("--all",)], ids=str)
def test_quarantined_row_starts_over(command_line: RecordingCommandLine, arguments: tuple[str, ...]) -> None:
    command_line.rows.put(command_line.rows.finalizations, an_entry(status=FinalizeStatus.QUARANTINED))

    (row,) = facts_of(command_line, "requeue", JOB, *arguments)

    assert row["requeued"] is True
    assert command_line.entry_status is FinalizeStatus.PENDING


def test_row_that_is_done_is_refused(command_line: RecordingCommandLine) -> None:
    command_line.rows.put(command_line.rows.finalizations, an_entry(status=FinalizeStatus.DONE))

    result = command_line.run("requeue", JOB, str(ENTRY_ID), **ENABLED)

    assert result.exit_code == 1
    assert result.stderr == f"messenger-jobs: {ENTRY_ID}: a finished finalization stays finished\n"


@pytest.mark.parametrize("arguments", [("run-once", JOB), ("requeue", JOB, "--all")], ids=str)
def test_job_that_is_not_enabled_says_what_enables_it(
    command_line: RecordingCommandLine, arguments: tuple[str, ...]
) -> None:
    result = command_line.run(*arguments)

    assert result.exit_code == 2
    assert result.stderr == (f"messenger-jobs: {JOB} runs only where MESSENGER_RECORDINGS_ENABLED is true\n")


def test_status_without_recordings_does_without_their_job(command_line: RecordingCommandLine) -> None:
    assert [facts["job"] for facts in command_line.json("status")] == ["chat-provision-retry", "outbox-relay"]
