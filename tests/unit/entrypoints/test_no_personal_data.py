"""Titles and roles go in everywhere; no log line, metric or result may let them out."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

import pytest
from messenger_jobs.adapters.kafka.deal_created_message import Refusal, read_created_deal
from messenger_jobs.adapters.memory.event_publisher import MemoryEventPublisher
from messenger_jobs.adapters.memory.provisioning import MemoryProvisioningStore
from messenger_jobs.application.outbox_relay import OUTBOX_RELAY
from messenger_jobs.application.ports.errors import (
    DatabaseUnavailable,
    DataRejected,
    RowRolledBack,
)
from messenger_jobs.application.ports.outbox import OutboxMessage
from messenger_jobs.application.stop_signal import StopSignal
from messenger_jobs.domain.chat import Member
from messenger_jobs.domain.deal_chat_provision import ProvisioningRules
from messenger_jobs.domain.provisioning import ProvisionSnapshot, Verdict
from messenger_jobs.entrypoints.settings import load_settings
from prometheus_client import generate_latest

from tests.support.builders import a_provision, some_id
from tests.support.captured_logs import captured_logs
from tests.support.command_line import URL, CommandLine
from tests.support.deal_created_messages import a_document
from tests.support.outbox_rows import an_outbox_row

MARK: Final = "Ivanov"
JOB: Final = "chat-provision-retry"
ERRORS: Final[list[Callable[[str], Exception]]] = [
    ValueError,
    lambda text: RowRolledBack("40P01", text),
    lambda text: DatabaseUnavailable("CONNECTION_LOST", text),
    lambda text: DataRejected("22001", text),
]


class StoreThatQuotesRows(MemoryProvisioningStore):
    """Fails each attempt with an error whose message quotes the row."""

    async def settle(
        self,
        seen: ProvisionSnapshot,
        verdict: Verdict,
        message: OutboxMessage | None,
        *,
        as_of: datetime,
        rules: ProvisioningRules,
    ) -> bool:
        error = ERRORS[seen.provision.id.int % len(ERRORS)]
        raise error(f"{seen.provision.title} {seen.provision.members}")


@pytest.fixture
def command_line() -> CommandLine:
    command_line = CommandLine()
    members = [
        (Member(user_id=some_id(11), role=f"{MARK} the buyer"),),
        (),
        (Member(user_id=some_id(11), role=MARK), Member(user_id=some_id(12), role=f"friend of {MARK}")),
    ]
    command_line.put(
        *(
            a_provision(
                id=some_id(100 + number),
                deal_id=some_id(200 + number),
                title=f"Flat {number} of {MARK}",
                attempts=number % 8,
                members=members[number % 3],
            )
            for number in range(24)
        )
    )
    return command_line


@pytest.mark.parametrize("quoting", [False, True], ids=["as usual", "errors that quote rows"])
async def test_a_cycle_tells_nothing_of_what_rows_say(command_line: CommandLine, quoting: bool) -> None:
    if quoting:
        command_line.store = StoreThatQuotesRows(command_line.rows)
    with captured_logs("debug") as logs:
        async with command_line.compose(load_settings({"MESSENGER_DATABASE_URL": URL})) as application:
            report = await application.jobs[JOB].run(StopSignal())
            metrics = generate_latest(application.registry).decode()

    assert len(logs.parsed) > 10
    assert MARK not in logs.text
    assert MARK not in metrics
    assert MARK not in repr(report)


@pytest.mark.parametrize(
    "arguments",
    [
        ("run-once", JOB, "--dry-run"),
        ("status",),
        ("list", JOB),
        ("show", JOB, str(some_id(100))),
        ("explain", JOB, str(some_id(100))),
        ("run-once", JOB),
        ("requeue", JOB, "--all"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("shape", ["--json", ""])
def test_no_command_tells_what_rows_say(
    command_line: CommandLine, arguments: tuple[str, ...], shape: str
) -> None:
    result = command_line.run(*arguments, *filter(None, [shape]), MESSENGER_LOG_LEVEL="debug")

    assert result.exit_code == 0
    assert result.output
    assert MARK not in result.output


@pytest.mark.parametrize("fate", ["sent", "topic missing", "refused", "too large", "broker down"])
def test_relay_says_nothing_of_what_messages_say(fate: str) -> None:
    broker = MemoryEventPublisher()
    row = an_outbox_row(1, payload={"title": f"Flat of {MARK}", "url": f"https://files.example/{MARK}"})
    if fate != "topic missing":
        topic = broker.add_topic(row.message.topic)
        topic.refused, topic.max_message_bytes = fate == "refused", 10 if fate == "too large" else 1_000_000
    broker.outage = "CONNECTION_REFUSED" if fate == "broker down" else None
    command_line = CommandLine(publisher=broker)
    command_line.rows.put(command_line.rows.outbox, row)

    told = [command_line.run("run-once", OUTBOX_RELAY, MESSENGER_LOG_LEVEL="debug")]
    told += [command_line.run("outbox", "list"), command_line.run("outbox", "requeue", "--all", "--json")]

    assert MARK not in "".join(result.output + result.stderr for result in told)
    stored = command_line.rows.row(command_line.rows.outbox, 1)
    assert stored is not None
    assert MARK not in (stored.last_error or "")


def test_consumer_says_nothing_of_the_messages_that_it_refuses() -> None:
    def with_mark(path: tuple[str | int, ...]) -> bytes:
        document: Any = a_document()
        inside = document
        for step in path[:-1]:
            inside = inside[step]
        inside[path[-1]] = [MARK] if path[-1] == "title" else MARK * 100
        return json.dumps(document).encode()

    places: list[tuple[str | int, ...]] = [
        *(("eventId",), ("occurredAt",), ("eventType",), ("contractVersion",)),
        *(("payload", name) for name in ("dealId", "title", "projectId", "dealTenantId", "participants")),
        *(("payload", "participants", 0, name) for name in ("userId", "role")),
    ]
    for value in (MARK.encode(), *map(with_mark, places)):
        refusal = read_created_deal(value)
        assert isinstance(refusal, Refusal)
        assert MARK not in refusal.code + refusal.sentence
