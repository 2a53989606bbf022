"""The relay and the outbox's commands over the memory adapters."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from messenger_jobs.adapters.memory.event_publisher import MemoryEventPublisher
from messenger_jobs.adapters.memory.schema import OutboxRow
from messenger_jobs.application.outbox_relay import OUTBOX_RELAY
from messenger_jobs.application.stop_signal import StopSignal
from messenger_jobs.entrypoints.settings import load_settings
from messenger_jobs.entrypoints.worker import run_worker

from tests.support.builders import NOW, a_provision
from tests.support.captured_logs import captured_logs
from tests.support.command_line import URL, CommandLine
from tests.support.eventually import eventually
from tests.support.outbox_rows import a_dead_row, a_published_row, an_outbox_row

TOPIC = an_outbox_row(1).message.topic


@pytest.fixture
def broker() -> MemoryEventPublisher:
    broker = MemoryEventPublisher()
    broker.add_topic(TOPIC)
    return broker


@pytest.fixture
def command_line(broker: MemoryEventPublisher) -> CommandLine:
    return CommandLine(publisher=broker)


def put(command_line: CommandLine, *rows: OutboxRow) -> None:
    command_line.rows.put(command_line.rows.outbox, *rows)


def row(command_line: CommandLine, number: int) -> OutboxRow:
    found = command_line.rows.row(command_line.rows.outbox, number)
    assert found is not None
    return found


class TestRunOnce:
    def test_publishes_and_tells_what_it_came_to(
        self, command_line: CommandLine, broker: MemoryEventPublisher
    ) -> None:
        put(command_line, an_outbox_row(1), an_outbox_row(2))

        facts = command_line.json("run-once", OUTBOX_RELAY)

        assert facts | {"job_run_id": None} == {
            "job": OUTBOX_RELAY,
            "job_run_id": None,
            "dry_run": False,
            "end": "completed",
            "published": 2,
            "failed": 0,
            "parked": 0,
            "held_back": 0,
            "duration_ms": 0,
            "error_code": None,
        }
        assert len(broker.topics[TOPIC].log) == 2
        assert row(command_line, 1).published_at == NOW

    def test_dry_run_tells_how_much_there_is_and_publishes_nothing(
        self, command_line: CommandLine, broker: MemoryEventPublisher
    ) -> None:
        put(command_line, an_outbox_row(1), an_outbox_row(2), a_dead_row(3))

        facts = command_line.json("run-once", OUTBOX_RELAY, "--dry-run")

        assert facts == {"job": OUTBOX_RELAY, "dry_run": True, "unpublished": 2}
        assert broker.topics[TOPIC].log == []

    def test_fails_with_a_sentence_when_the_broker_is_out_of_reach(
        self, command_line: CommandLine, broker: MemoryEventPublisher
    ) -> None:
        put(command_line, an_outbox_row(1))
        broker.outage = "CONNECTION_REFUSED"

        result = command_line.run("run-once", OUTBOX_RELAY)

        assert result.exit_code == 1
        assert "outbox-relay: ended early, it could not go on (CONNECTION_REFUSED)" in result.stderr
        assert row(command_line, 1).attempts == 0

    def test_is_wrong_usage_without_a_broker(self) -> None:
        result = CommandLine().run("run-once", OUTBOX_RELAY)

        assert result.exit_code == 2
        assert "outbox-relay runs only where MESSENGER_KAFKA_BOOTSTRAP_SERVERS is set" in result.stderr

    def test_is_wrong_usage_of_the_consumer(self, command_line: CommandLine) -> None:
        result = command_line.run("run-once", "deal-created")

        assert result.exit_code == 2
        assert "there is no job deal-created" in result.stderr


class TestList:
    def test_shows_parked_messages_without_what_they_say(self, command_line: CommandLine) -> None:
        put(command_line, an_outbox_row(1), a_dead_row(2), a_published_row(3))

        (facts,) = command_line.json("outbox", "list")

        assert facts == {
            "id": 2,
            "event_id": str(a_dead_row(2).message.event_id),
            "topic": TOPIC,
            "message_key": a_dead_row(2).message.message_key,
            "attempts": a_dead_row(2).attempts,
            "error_code": a_dead_row(2).last_error,
            "dead_at": NOW.isoformat(),
        }

    def test_table_tells_the_same(self, command_line: CommandLine) -> None:
        put(command_line, a_dead_row(2))

        (facts,) = command_line.json("outbox", "list")
        table = command_line.run("outbox", "list").stdout

        assert all(str(fact) in table for fact in facts.values())

    def test_shows_those_with_one_error(self, command_line: CommandLine) -> None:
        put(command_line, a_dead_row(1), a_dead_row(2, error="Kafka:FORBIDDEN"))

        rows = command_line.json("outbox", "list", "--error", "Kafka:FORBIDDEN")

        assert [facts["id"] for facts in rows] == [2]


class TestRequeue:
    def test_named_message_is_sent_again(
        self, command_line: CommandLine, broker: MemoryEventPublisher
    ) -> None:
        put(command_line, a_dead_row(1), a_dead_row(2))

        rows = command_line.json("outbox", "requeue", "2")
        command_line.json("run-once", OUTBOX_RELAY)

        assert rows == [{"id": 2, "requeued": True, "reason": None}]
        assert len(broker.topics[TOPIC].log) == 1
        assert row(command_line, 1).dead_at is not None

    def test_all_of_one_error_are_sent_again(self, command_line: CommandLine) -> None:
        put(command_line, a_dead_row(1), a_dead_row(2, error="Kafka:FORBIDDEN"))

        rows = command_line.json("outbox", "requeue", "--all", "--error", "Kafka:FORBIDDEN")

        assert [facts["id"] for facts in rows] == [2]
        assert row(command_line, 1).dead_at is not None

    def test_dry_run_changes_nothing(self, command_line: CommandLine) -> None:
        put(command_line, a_dead_row(1))

        rows = command_line.json("outbox", "requeue", "--all", "--dry-run")

        assert [facts["id"] for facts in rows] == [1]
        assert row(command_line, 1) == a_dead_row(1)

    def test_message_that_is_not_parked_is_refused(self, command_line: CommandLine) -> None:
        put(command_line, an_outbox_row(1))

        result = command_line.run("outbox", "requeue", "1")

        assert result.exit_code == 1
        assert "1: there is no such parked message" in result.stderr

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            ((), "outbox requeue needs either ids or --all"),
            (("1", "--all"), "outbox requeue needs either ids or --all"),
            (("1", "--error", "Kafka:FORBIDDEN"), "--error goes with --all"),
            (("first",), "first is no message's number"),
            (("9" * 19,), "is no message's number"),
        ],
    )
    def test_wrong_usage_is_told(
        self, command_line: CommandLine, arguments: tuple[str, ...], sentence: str
    ) -> None:
        result = command_line.run("outbox", "requeue", *arguments)

        assert result.exit_code == 2
        assert sentence in result.stderr


class TestPrune:
    def test_deletes_what_was_published_long_ago(self, command_line: CommandLine) -> None:
        put(command_line, a_published_row(1), an_outbox_row(2), a_dead_row(3))
        command_line.clock.advance(timedelta(days=8))
        put(command_line, a_published_row(4, at=NOW + timedelta(days=7)))

        facts = command_line.json("outbox", "prune")

        assert facts == {"pruned": 1, "retention_seconds": 604_800}
        assert [each.id for each in command_line.rows.rows(command_line.rows.outbox)] == [2, 3, 4]


async def test_worker_sends_what_its_jobs_decide(
    command_line: CommandLine, broker: MemoryEventPublisher
) -> None:
    command_line.put(a_provision())
    settings, stop = load_settings({"MESSENGER_DATABASE_URL": URL}), StopSignal()

    def sent() -> bool:
        command_line.clock.advance(timedelta(seconds=1))
        return len(broker.topics[TOPIC].log) == 1

    with captured_logs() as logs:
        async with command_line.compose(settings) as application, asyncio.TaskGroup() as running:
            running.create_task(run_worker(application, ["chat-provision-retry", OUTBOX_RELAY], stop))
            await eventually(sent)
            stop.request()

    assert {"chat provisioned", "worker started"} <= {*logs.events()}
