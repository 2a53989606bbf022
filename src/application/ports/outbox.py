"""Integration events, stored in the transaction of the change they tell of."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol
from uuid import UUID

from attrs import frozen

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]


@frozen(kw_only=True)
class OutboxMessage:
    """One integration event on its way to a topic.

    ``message_key`` orders it among the topic's events, ``occurred_at`` is the time of the transition (never of
    publishing), ``dedupe_key`` makes a second insertion a no-op.
    """

    event_id: UUID
    topic: str
    message_key: str
    aggregate_type: str
    aggregate_id: str
    event_type: str
    contract_version: int
    payload: Mapping[str, JsonValue]
    headers: Mapping[str, str]
    occurred_at: datetime
    dedupe_key: str | None = None


class Outbox(Protocol):
    """Writes messages within the surrounding unit of work. Contract tests: ``tests.contract.outbox``."""

    async def add(self, message: OutboxMessage) -> bool:
        """Store the message; False when its ``dedupe_key`` is there already, and then nothing is written.

        It exists exactly when the surrounding transaction commits.
        """
        ...
