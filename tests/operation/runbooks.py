"""The commands of the runbooks, and a database in which there is something to be done about."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import psycopg
from attrs import frozen
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from messenger_jobs.domain.recording_finalize import FinalizeStatus
from messenger_jobs.domain.retry_schedule import RetrySchedule

from tests.e2e.recordings import Recordings
from tests.e2e.rows import Rows
from tests.operation.deployed_files import ROOT
from tests.support.processes import JOB, run_json

PAGES: Final = sorted((ROOT / "docs" / "runbooks").glob("*.md"))

TOPICS: Final = (
    "pin.crm.deal-created.v1",
    "pin.crm.deal-created.v1.messenger.dlq",
    "pin.messenger.deal-chat-status-changed.v1",
    "pin.messenger.call-recording-available.v1",
)

_BLOCK: Final = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_INLINE: Final = re.compile(r"`(messenger-jobs [^`]+)`")


@frozen
class Ids:
    """What the capitals in the commands stand for."""

    provision: str
    deal: str
    recording: str
    message: str

    def put_into(self, command: str) -> list[str]:
        meant = {
            "PROVISION_ID": self.provision,
            "DEAL_ID": self.deal,
            "RECORDING_ID": self.recording,
            "MESSAGE_ID": self.message,
        }
        return [meant.get(word, word) for word in command.split()]


def blocks(page: Path) -> list[tuple[str, list[str]]]:
    """The language and the lines of every fenced block."""
    return [
        (language, lines.splitlines()) for language, lines in _BLOCK.findall(page.read_text(encoding="utf-8"))
    ]


def commands() -> list[str]:
    """Each command once, without the program's name."""
    lines = [line for page in PAGES for _, block in blocks(page) for line in block]
    lines += [command for page in PAGES for command in _INLINE.findall(page.read_text(encoding="utf-8"))]
    return sorted({line.removeprefix("messenger-jobs ") for line in lines})


def prepare(recordings: Recordings) -> Ids:
    """A provision and a recording whose attempts are used up, others that wait or are due, and a parked event."""
    rows = Rows(recordings.url)
    rows.seed(4, without_members=2)
    with psycopg.connect(recordings.url) as connection:
        connection.execute("update messenger.deal_chat_provisions set attempts = 7 where title = 'Flat 2'")
    run_json(recordings.url, "run-once", JOB)
    rows_by_status = {row.status: row.id for row in rows.all()}
    quarantined = recordings.put(
        entry={
            "status": FinalizeStatus.QUARANTINED,
            "schedule": RetrySchedule(
                attempts=8, next_attempt_at=datetime.now(UTC), last_error="Storage:HTTP_503"
            ),
        }
    )
    recordings.put()
    recordings.put(ended=timedelta(minutes=1))
    with psycopg.connect(recordings.url) as connection:
        poison = _one(
            connection,
            "select id::text, deal_id::text from messenger.deal_chat_provisions"
            " where status = 'Failed' and attempts = 8",
        )
        message = _one(
            connection,
            "update messenger.outbox_messages set dead_at = now(), last_error = 'Kafka:MESSAGE_TOO_LARGE', attempts = 1"
            " where payload->>'status' = 'Ready' and id = (select min(id) from messenger.outbox_messages"
            " where payload->>'status' = 'Ready') returning id::text",
        )
    assert set(rows_by_status) == {"Failed", "Ready"}
    return Ids(poison[0], poison[1], str(quarantined), message[0])


def create_topics(bootstrap_servers: str) -> None:
    """The topics of the contract; harmless when they are there."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    creating: Mapping[str, Any] = admin.create_topics([NewTopic(name, 3, 1) for name in TOPICS])
    for name, created in creating.items():
        try:
            created.result(30)
        except KafkaException:  # it is there, or this is the mock, which makes each topic that is asked for
            admin.list_topics(name, timeout=30)


def _one(connection: psycopg.Connection, statement: str) -> tuple[Any, ...]:
    (row,) = connection.execute(statement.encode()).fetchall()
    return tuple(row)
