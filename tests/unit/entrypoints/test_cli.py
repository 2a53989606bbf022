"""The commands' results, exit codes and sentences."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from messenger_jobs.adapters.memory.provisioning import MemoryProvisioningStore
from messenger_jobs.adapters.postgres.lock_holder import LockHolder
from messenger_jobs.application.cursor import Cursor
from messenger_jobs.application.ports.errors import DatabaseUnavailable, Misconfigured
from messenger_jobs.application.ports.provisioning import ProvisioningBacklog
from messenger_jobs.application.ports.run_lock import RunLease
from messenger_jobs.domain.deal_chat_provision import ProvisioningRules, ProvisionStatus
from messenger_jobs.domain.provisioning import ProvisionSnapshot
from messenger_jobs.entrypoints.database import DatabaseUnusable

from tests.support.builders import NOW, a_chat, a_provision, a_ready_provision, some_id
from tests.support.command_line import URL, CommandLine
from tests.support.outbox_rows import a_dead_row, an_outbox_row

JOB = "chat-provision-retry"
UNREACHABLE = DatabaseUnusable(
    "MESSENGER_DATABASE_URL",
    DatabaseUnavailable("CONNECTION_LOST", "the connection to the database failed"),
)
NO_TABLES = DatabaseUnusable(
    "MESSENGER_DATABASE_URL", Misconfigured("SCHEMA_MISSING", "the database has no messenger tables")
)


@pytest.fixture
def command_line() -> CommandLine:
    return CommandLine()


def stuck(number: int, **changes: Any) -> Any:
    return a_provision(id=some_id(number), deal_id=some_id(1000 + number), **changes)


def poison(number: int) -> Any:
    return stuck(number, status=ProvisionStatus.FAILED, attempts=8, last_error="ProvisionGuard:NO_MEMBERS")


class BusyLocks:
    @asynccontextmanager
    async def try_acquire(self, name: str) -> AsyncIterator[RunLease | None]:
        del name
        yield None


class Lost:
    expired = False
    confirmation_due = True

    async def confirm(self) -> bool:
        return False


class LocksThatAreLost:
    @asynccontextmanager
    async def try_acquire(self, name: str) -> AsyncIterator[RunLease | None]:
        del name
        yield Lost()


class StoreThatIsGone(MemoryProvisioningStore):
    async def candidates(
        self, *, as_of: datetime, after: Cursor | None, limit: int, rules: ProvisioningRules
    ) -> Sequence[ProvisionSnapshot]:
        raise DatabaseUnavailable("CONNECTION_LOST", "the connection to the database failed")


class StoreWithADefect(MemoryProvisioningStore):
    async def backlog(self, *, as_of: datetime, rules: ProvisioningRules) -> ProvisioningBacklog:
        raise KeyError("Flat 12, Ivanov")


class TestRunOnce:
    def test_provisions_what_is_due(self, command_line: CommandLine) -> None:
        command_line.put(stuck(1), stuck(2, members=()), stuck(3, next_attempt_at=NOW + timedelta(hours=1)))

        facts = command_line.json("run-once", JOB)

        assert facts.pop("job_run_id")
        assert facts == {
            "job": JOB,
            "dry_run": False,
            "as_of": NOW.isoformat(),
            "end": "completed",
            "provisioned": 1,
            "retried": 1,
            "failed": 0,
            "skipped": 0,
            "rolled_back": 0,
            "duration_ms": 0,
            "error_code": None,
        }
        assert command_line.row(some_id(1)).status is ProvisionStatus.READY
        assert command_line.row(some_id(2)).status is ProvisionStatus.FAILED

    def test_table_tells_the_same_facts(self, command_line: CommandLine) -> None:
        facts = command_line.json("run-once", JOB, "--dry-run")
        table = command_line.run("run-once", JOB, "--dry-run").stdout

        assert facts == table_facts(table)
        assert f"{JOB}: nothing was changed, a cycle would come to this" in table
        assert f"{JOB}: no due row is left" in command_line.run("run-once", JOB).stdout

    def test_logs_go_to_standard_error(self, command_line: CommandLine) -> None:
        command_line.put(stuck(1))

        result = command_line.run("run-once", JOB)

        events = [json.loads(line)["event"] for line in result.stderr.splitlines()]
        assert events == ["cycle started", "batch claimed", "chat provisioned", "cycle completed"]
        assert "chat provisioned" not in result.stdout

    def test_dry_run_changes_nothing_and_says_what_would_be(self, command_line: CommandLine) -> None:
        command_line.put(stuck(1), stuck(2, members=()))
        before = [command_line.row(some_id(number)) for number in (1, 2)]
        command_line.locks = BusyLocks()  # and needs no lock

        facts = command_line.json("run-once", JOB, "--dry-run")

        assert (facts["dry_run"], facts["provisioned"], facts["retried"]) == (True, 1, 1)
        assert [command_line.row(some_id(number)) for number in (1, 2)] == before
        assert command_line.rows.rows(command_line.rows.chats) == []

    def test_busy_lock_is_no_failure(self, command_line: CommandLine) -> None:
        command_line.locks = BusyLocks()

        result = command_line.run("run-once", JOB)

        assert result.exit_code == 0
        assert "skipped, another runner holds the lock" in result.stdout

    def test_lost_lock_is_a_failure(self, command_line: CommandLine) -> None:
        command_line.put(stuck(1))
        command_line.locks = LocksThatAreLost()

        result = command_line.run("run-once", JOB, MESSENGER_LOG_LEVEL="error")

        assert result.exit_code == 1
        assert result.stderr == (
            f"messenger-jobs: {JOB}: ended early, the lock is no longer known to be held (lock_lost)\n"
        )

    def test_aborted_cycle_is_a_failure_that_shows_what_was_done(self, command_line: CommandLine) -> None:
        command_line.store = StoreThatIsGone(command_line.rows)

        result = command_line.run("run-once", JOB, "--json", MESSENGER_LOG_LEVEL="error")

        assert result.exit_code == 1
        assert result.stderr == (
            f"messenger-jobs: {JOB}: ended early, it could not go on (CONNECTION_LOST)\n"
        )
        assert json.loads(result.stdout)["error_code"] == "CONNECTION_LOST"

    def test_unknown_job_is_wrong_usage_that_lists_the_jobs(self, command_line: CommandLine) -> None:
        result = command_line.run("run-once", "chat-provision")

        assert_one_sentence(result, 2, f"there is no job chat-provision; the jobs are: {JOB}")


class TestErrors:
    @pytest.mark.parametrize(
        "arguments",
        [("run-once", JOB), ("run-once", JOB, "--dry-run"), ("status",), ("requeue", JOB, "--all")],
        ids=" ".join,
    )
    def test_unusable_database_is_one_sentence(
        self, command_line: CommandLine, arguments: Sequence[str]
    ) -> None:
        command_line.database.unusable = UNREACHABLE

        result = command_line.run(*arguments)

        assert_one_sentence(result, 1, "MESSENGER_DATABASE_URL: the connection to the database failed")

    @pytest.mark.parametrize(
        "arguments",
        [("worker",), ("run-once", JOB), ("migrate",), ("status",), ("requeue", JOB, "--all")],
        ids=" ".join,
    )
    def test_wrong_settings_are_named_one_by_one(
        self, command_line: CommandLine, arguments: Sequence[str]
    ) -> None:
        result = command_line.run(
            *arguments, MESSENGER_DATABASE_URL="", MESSENGER_LOG_LEVEL="loud", MESSENGER_HTTP_PORT="x"
        )

        assert result.exit_code == 2
        assert result.stdout == ""
        assert result.stderr.splitlines() == [
            "messenger-jobs: MESSENGER_DATABASE_URL is not set",
            "messenger-jobs: MESSENGER_HTTP_PORT must be a port between 1 and 65535, or 0 for none",
            "messenger-jobs: MESSENGER_LOG_LEVEL must be debug, info, warning or error",
        ]

    def test_defect_is_one_sentence_without_its_message(self, command_line: CommandLine) -> None:
        command_line.store = StoreWithADefect(command_line.rows)

        assert_one_sentence(
            command_line.run("status"), 1, "unexpected KeyError; --debug shows where it comes from"
        )

    def test_debug_shows_the_traceback_as_well(self, command_line: CommandLine) -> None:
        command_line.store = StoreWithADefect(command_line.rows)

        result = command_line.run("status", "--debug")

        assert result.exit_code == 1
        assert "Traceback" in result.stderr
        assert result.stderr.endswith("unexpected KeyError; --debug shows where it comes from\n")

    def test_config_file_gives_the_settings(self, command_line: CommandLine, tmp_path: Path) -> None:
        file = tmp_path / "messenger.env"
        file.write_text(f"MESSENGER_DATABASE_URL={URL}\nMESSENGER_CHAT_PROVISION_RETRY_MAX_ATTEMPTS=1\n")
        command_line.put(stuck(1, members=()))

        facts = command_line.json("run-once", JOB, "--config", str(file), MESSENGER_DATABASE_URL="")

        assert facts["failed"] == 1

    def test_missing_config_file_is_named(self, command_line: CommandLine, tmp_path: Path) -> None:
        file = tmp_path / "missing.env"

        assert_one_sentence(
            command_line.run("status", "--config", str(file)),
            2,
            f"--config cannot read {file}: No such file or directory",
        )

    def test_misspelt_setting_is_pointed_out(self, command_line: CommandLine) -> None:
        result = command_line.run("status", MESSENGER_LOG_LEVLE="debug")

        (line,) = [json.loads(line) for line in result.stderr.splitlines()]
        assert (line["name"], line["did_you_mean"]) == ("MESSENGER_LOG_LEVLE", "MESSENGER_LOG_LEVEL")

    def test_no_output_ever_shows_the_password(self, command_line: CommandLine) -> None:
        command_line.database.unusable = UNREACHABLE

        for arguments in (("status",), ("status", "--debug"), ("worker", "--job", "x")):
            assert "s3cr3t-word" not in command_line.run(*arguments).output


class TestStatus:
    def test_counts_the_backlog(self, command_line: CommandLine) -> None:
        command_line.put(
            stuck(1),
            stuck(2, next_attempt_at=NOW + timedelta(hours=1), status=ProvisionStatus.FAILED, attempts=1),
            poison(3),
        )

        facts, _ = command_line.json("status")

        assert facts == {
            "job": JOB,
            "failed": 3,
            "due": 1,
            "waiting": 1,
            "poison": 1,
            "oldest_age_seconds": 86_400,
            "last_success": None,
            "lock_holder_pid": None,
            "lock_holder_address": None,
            "lock_confirmed_at": None,
        }

    def test_nothing_to_do_is_all_zeros(self, command_line: CommandLine) -> None:
        facts, _ = command_line.json("status")

        assert [facts[name] for name in ("failed", "due", "waiting", "poison", "oldest_age_seconds")] == [
            0
        ] * 5

    def test_counts_the_outbox(self, command_line: CommandLine) -> None:
        command_line.rows.put(command_line.rows.outbox, an_outbox_row(1), an_outbox_row(2), a_dead_row(3))
        command_line.clock.advance(timedelta(minutes=3))

        _, outbox = command_line.json("status")

        assert outbox == {
            "job": "outbox-relay",
            "unpublished": 2,
            "dead": 1,
            "oldest_age_seconds": 180,
            "last_success": None,
            "lock_holder_pid": None,
            "lock_holder_address": None,
            "lock_confirmed_at": None,
        }

    def test_names_the_lock_holder(self, command_line: CommandLine) -> None:
        command_line.database.holder = LockHolder(
            pid=4711,
            application_name=f"messenger-jobs lock {JOB}",
            client_address="10.0.0.7",
            connected_at=NOW - timedelta(minutes=2),
            confirmed_at=NOW - timedelta(minutes=1),
        )

        facts, _ = command_line.json("status")

        assert facts["lock_holder_pid"] == 4711
        assert facts["lock_holder_address"] == "10.0.0.7"
        assert facts["lock_confirmed_at"] == (NOW - timedelta(minutes=1)).isoformat()

    def test_table_tells_the_same_facts(self, command_line: CommandLine) -> None:
        command_line.put(stuck(1))

        facts, outbox = command_line.json("status")

        assert table_facts(command_line.run("status").stdout) == facts | outbox

    def test_worker_that_is_not_there_is_not_asked_for_long(self, command_line: CommandLine) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            port = silent.getsockname()[1]

            facts, _ = command_line.json("status", MESSENGER_HTTP_PORT=str(port))

        assert facts["last_success"] is None


class TestRequeue:
    def test_named_rows_start_over(self, command_line: CommandLine) -> None:
        command_line.put(poison(1), poison(2))

        rows = command_line.json("requeue", JOB, str(some_id(1)))

        assert rows == [{"id": str(some_id(1)), "requeued": True, "reason": None}]
        assert command_line.row(some_id(1)).schedule.attempts == 0
        assert command_line.row(some_id(2)).schedule.attempts == 8

    def test_all_poison_rows_start_over(self, command_line: CommandLine) -> None:
        command_line.put(poison(1), poison(2), stuck(3))

        rows = command_line.json("requeue", JOB, "--all")

        assert {row["id"] for row in rows} == {str(some_id(1)), str(some_id(2))}

    def test_all_can_be_narrowed_to_one_error(self, command_line: CommandLine) -> None:
        command_line.put(poison(1))

        assert command_line.json("requeue", JOB, "--all", "--error", "ProvisionGuard:EMPTY_TITLE") == []
        assert len(command_line.json("requeue", JOB, "--all", "--error", "ProvisionGuard:NO_MEMBERS")) == 1

    def test_dry_run_changes_nothing(self, command_line: CommandLine) -> None:
        command_line.put(poison(1))

        result = command_line.run("requeue", JOB, "--all", "--dry-run")

        assert f"{JOB}: rows that would start over: 1" in result.stdout
        assert command_line.row(some_id(1)).schedule.attempts == 8

    def test_refused_row_is_named_with_the_reason(self, command_line: CommandLine) -> None:
        ready = a_ready_provision()
        command_line.rows.put(command_line.rows.chats, a_chat())
        command_line.put(ready, poison(7))

        result = command_line.run("requeue", JOB, str(ready.id), str(some_id(7)), str(some_id(99)))

        assert result.exit_code == 1
        assert result.stderr == (
            f"messenger-jobs: {ready.id}: a ready provision stays ready; 1 more were refused\n"
        )
        assert command_line.row(some_id(7)).schedule.attempts == 0

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            ((JOB,), "requeue needs either ids or --all"),
            ((JOB, str(some_id(1)), "--all"), "requeue needs either ids or --all"),
            ((JOB, str(some_id(1)), "--error", "x"), "--error goes with --all"),
            (("chats", "--all"), f"there is no job chats; the jobs are: {JOB}"),
        ],
    )
    def test_wrong_usage_is_told(
        self, command_line: CommandLine, arguments: Sequence[str], sentence: str
    ) -> None:
        assert_one_sentence(command_line.run("requeue", *arguments), 2, sentence)

    def test_id_that_is_none_is_wrong_usage(self, command_line: CommandLine) -> None:
        assert_one_sentence(
            command_line.run("requeue", JOB, "everything"),
            2,
            "everything is no id: ids are UUIDs",
        )


class TestWorker:
    def test_unknown_job_is_wrong_usage(self, command_line: CommandLine) -> None:
        assert_one_sentence(
            command_line.run("worker", "--job", JOB, "--job", "chats"),
            2,
            f"there is no job chats; the jobs are: {JOB}",
        )

    def test_missing_schema_ends_it_at_start(self, command_line: CommandLine) -> None:
        command_line.database.unusable = NO_TABLES

        assert_one_sentence(
            command_line.run("worker"), 1, "MESSENGER_DATABASE_URL: the database has no messenger tables"
        )

    def test_taken_port_ends_it_at_start(self, command_line: CommandLine) -> None:
        with socket.create_server(("0.0.0.0", 0)) as other:
            port = other.getsockname()[1]

            result = command_line.run("worker", MESSENGER_HTTP_PORT=str(port))

        assert_one_sentence(
            result, 1, f"MESSENGER_HTTP_PORT: cannot listen on port {port}: Address already in use"
        )


@pytest.mark.parametrize(
    ("arguments", "named"),
    [((), "command"), (("work",), "worker"), (("status", "--jsn"), "--json"), (("run-once",), "JOB")],
)
def test_wrong_usage_is_one_line_that_names_what_is_meant(
    command_line: CommandLine, arguments: Sequence[str], named: str
) -> None:
    result = command_line.run(*arguments)

    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("messenger-jobs: ")
    assert named in line


def test_help_lists_the_commands(command_line: CommandLine) -> None:
    result = command_line.run("--help")

    assert result.exit_code == 0
    for command in ("worker", "run-once", "migrate", "status", "requeue", "demo"):
        assert command in result.stdout


def assert_one_sentence(result: Any, exit_code: int, sentence: str) -> None:
    assert (result.exit_code, result.stdout, result.stderr) == (
        exit_code,
        "",
        f"messenger-jobs: {sentence}\n",
    )


def table_facts(table: str) -> dict[str, object]:
    """The names and values in a table; JSON's words for what is none, true, or a number."""
    rows = [[cell.strip() for cell in line.split("│")[1:3]] for line in table.splitlines() if "│" in line]
    return {name: _value(text) for name, text in rows}


def _value(text: str) -> object:
    if text == "-":
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text
