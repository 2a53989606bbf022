"""`check`: a verdict for each item, and an exit code for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

import pytest
from attrs import define, field
from messenger_jobs.adapters.kafka.check import KafkaCheck
from messenger_jobs.adapters.memory.outbox_queue import MemoryOutboxQueue
from messenger_jobs.adapters.memory.provisioning_inspection import MemoryProvisioningInspection
from messenger_jobs.application.ports.check import Check, CheckedItem, SkippedCheck, failed, ok
from messenger_jobs.entrypoints.bootstrap import Application, bootstrap
from messenger_jobs.entrypoints.checks import checks_of
from messenger_jobs.entrypoints.settings import Settings, load_settings

from tests.support.command_line import URL, CommandLine


@define
class Says:
    items: Sequence[CheckedItem]

    async def __call__(self) -> Sequence[CheckedItem]:
        return self.items


@define(slots=False)
class CheckingCommandLine(CommandLine):
    checks: list[Check] = field(factory=list["Check"])

    def compose(self, settings: Settings) -> AbstractAsyncContextManager[Application]:
        return bootstrap(
            settings,
            clock=self.clock,
            locks=self.locks,
            store=self.store,
            inspection=MemoryProvisioningInspection(self.rows),
            queue=MemoryOutboxQueue(self.rows),
            database=self.database,
            checks=self.checks,
        )


GOOD = Says([ok("database", "the database can be reached"), ok("schema", "the schema is right")])
BAD = Says([failed("storage", "MESSENGER_S3_REGION: the bucket is in another region", "WRONG_REGION")])
WORSE = Says([failed("kafka", "no broker answered in time", "TIMED_OUT")])


@pytest.fixture
def command_line() -> CheckingCommandLine:
    return CheckingCommandLine()


def test_everything_as_it_must_be_is_done(command_line: CheckingCommandLine) -> None:
    command_line.checks = [GOOD, SkippedCheck("kafka", "it is not set")]

    assert command_line.json("check") == [
        {"item": "database", "verdict": "ok", "sentence": "the database can be reached", "code": None},
        {"item": "schema", "verdict": "ok", "sentence": "the schema is right", "code": None},
        {"item": "kafka", "verdict": "skipped", "sentence": "it is not set", "code": None},
    ]


def test_one_failure_fails_and_the_others_are_shown_nevertheless(command_line: CheckingCommandLine) -> None:
    command_line.checks = [BAD, GOOD]

    result = command_line.run("check")

    assert result.exit_code == 1
    assert result.stderr == "messenger-jobs: storage: MESSENGER_S3_REGION: the bucket is in another region\n"
    for text in ("checks failed: 1 of 3", "WRONG_REGION", "the schema is right"):
        assert text in result.stdout


def test_several_failures_are_counted(command_line: CheckingCommandLine) -> None:
    command_line.checks = [WORSE, BAD]

    result = command_line.run("check", "--json")

    assert result.exit_code == 1
    assert result.stderr == ("messenger-jobs: kafka: no broker answered in time (and 1 more checks failed)\n")


async def test_what_is_not_set_is_skipped_with_the_setting_that_would_change_that() -> None:
    settings = load_settings({"MESSENGER_DATABASE_URL": URL})

    _, _, *others = checks_of(settings, None)

    items = [item for check in others for item in await check()]
    assert [(item.item, item.verdict.value, item.sentence) for item in items] == [
        ("storage", "skipped", "MESSENGER_RECORDINGS_ENABLED is not true"),
        ("kafka", "skipped", "MESSENGER_KAFKA_BOOTSTRAP_SERVERS is not set"),
    ]


def test_kafka_is_asked_for_the_topics_of_the_contract() -> None:
    settings = load_settings(
        {"MESSENGER_DATABASE_URL": URL, "MESSENGER_KAFKA_BOOTSTRAP_SERVERS": "broker.example:9092"}
    )

    *_, kafka = checks_of(settings, None)

    assert isinstance(kafka, KafkaCheck)
    assert kafka.security.bootstrap_servers == "broker.example:9092"
    assert set(kafka.topics) == {
        "pin.crm.deal-created.v1",
        "pin.crm.deal-created.v1.messenger.dlq",
        "pin.messenger.deal-chat-status-changed.v1",
        "pin.messenger.call-recording-available.v1",
    }
