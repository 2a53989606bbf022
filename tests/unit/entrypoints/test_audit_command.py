"""``audit`` over a database that says what the test wants to hear."""

from __future__ import annotations

from datetime import timedelta

import pytest
from messenger_jobs.adapters.postgres.audit import Finding
from messenger_jobs.application.ports.errors import DatabaseUnavailable
from messenger_jobs.entrypoints.database import DatabaseUnusable

from tests.support.builders import NOW
from tests.support.command_line import CommandLine

CHATS = "a deal has at most one chat"
FAILURES = "a recording is announced at most once"


@pytest.fixture
def command_line() -> CommandLine:
    return CommandLine()


def test_clean_database_is_said_to_be_clean(command_line: CommandLine) -> None:
    command_line.database.findings = [
        Finding(claim=CHATS, violations=0),
        Finding(claim=FAILURES, violations=0),
    ]

    result = command_line.run("audit")

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("what must never happen: none of 2 invariants broken\n")
    assert CHATS in result.stdout
    assert command_line.json("audit") == [
        {"invariant": CHATS, "violations": 0, "examples": None},
        {"invariant": FAILURES, "violations": 0, "examples": None},
    ]


def test_violations_are_told_in_one_sentence_with_their_number_and_examples(
    command_line: CommandLine,
) -> None:
    command_line.database.findings = [
        Finding(claim=CHATS, violations=12, sample=("id-1", "id-2")),
        Finding(claim="it is well", violations=0),
        Finding(claim=FAILURES, violations=1, sample=("id-3",)),
    ]

    result = command_line.run("audit")

    assert result.exit_code == 1
    assert result.stderr == (
        f"messenger-jobs: 2 of 3 invariants broken: {CHATS} (not true of 12, such as id-1, id-2);"
        f" {FAILURES} (not true of 1, such as id-3)\n"
    )
    shown = [[cell.strip() for cell in line.split("│")[1:4]] for line in result.stdout.splitlines()]
    assert [CHATS, "12", "id-1 id-2"] in shown
    assert ["it is well", "0", "-"] in shown


def test_json_is_complete_when_something_is_broken(command_line: CommandLine) -> None:
    command_line.database.findings = [Finding(claim=CHATS, violations=1, sample=("id-1",))]

    result = command_line.run("audit", "--json")

    assert result.exit_code == 1
    assert '"examples": "id-1"' in result.stdout


def test_limits_and_memory_of_the_outbox_come_from_the_settings(command_line: CommandLine) -> None:
    command_line.run(
        "audit",
        MESSENGER_CHAT_PROVISION_RETRY_MAX_ATTEMPTS="3",
        MESSENGER_RECORDING_FINALIZE_RETRY_MAX_ATTEMPTS="4",
        MESSENGER_OUTBOX_RELAY_RETENTION="2d",
    )

    assert command_line.database.audited_with == {
        "max_attempts": 3,
        "max_finalize_attempts": 4,
        "since": NOW - timedelta(days=2),
    }


def test_unusable_database_is_told(command_line: CommandLine) -> None:
    command_line.database.unusable = DatabaseUnusable(
        "MESSENGER_DATABASE_URL", DatabaseUnavailable("CONNECTION_LOST", "the connection failed")
    )

    result = command_line.run("audit")

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "messenger-jobs: MESSENGER_DATABASE_URL: the connection failed\n"
