"""Rows of the outbox for tests: valid as they come, with only what matters to the test spelled out."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from attrs import evolve
from messenger_jobs.adapters.memory.schema import OutboxRow
from messenger_jobs.application.ports.outbox import OutboxMessage

from tests.support.builders import NOW, some_id

TOPIC: Final = "pin.messenger.deal-chat-status-changed.v1"


def an_outbox_message(number: int = 1, **changes: Any) -> OutboxMessage:
    """The message with this number: of a deal of its own, unless ``message_key`` says otherwise."""
    message = OutboxMessage(
        event_id=some_id(number),
        topic=TOPIC,
        message_key=f"deal {number}",
        aggregate_type="DealChatProvision",
        aggregate_id=f"deal {number}",
        event_type="DealChatStatusChanged",
        contract_version=1,
        payload={"dealId": f"deal {number}", "status": "Ready"},
        headers={"correlation-id": "run"},
        occurred_at=NOW - timedelta(minutes=1),
    )
    return evolve(message, **changes)


def an_outbox_row(id: int = 1, *, created_at: datetime = NOW, **changes: Any) -> OutboxRow:
    """The row with this id, which waits to be published; ``changes`` are columns of the row or of its message."""
    row = OutboxRow(id=id, message=an_outbox_message(id), created_at=created_at)
    of_row = {name: changes.pop(name) for name in list(changes) if name in OutboxRow.__annotations__}
    return evolve(row, message=evolve(row.message, **changes), **of_row)


def a_published_row(id: int = 1, *, at: datetime = NOW, offset: int | None = None) -> OutboxRow:
    """A row that the broker has."""
    return an_outbox_row(id, published_at=at, published_partition=3, published_offset=offset or id)


def a_dead_row(id: int = 1, *, error: str = "Kafka:MESSAGE_TOO_LARGE") -> OutboxRow:
    """A row that waits for an operator."""
    return an_outbox_row(id, dead_at=NOW, attempts=2, last_error=error)
