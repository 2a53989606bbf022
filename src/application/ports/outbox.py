"""Integration events, stored in the transaction of the change they tell of."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Protocol
from uuid import UUID

from attrs import frozen

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]


@frozen(eq=False)
class StoredJson(Mapping[str, JsonValue]):
    """A JSON object as a database has written it: for passing on, and read only when somebody looks into it.

    In ``text`` numbers keep all their digits, and nothing is too deep or too long. Looking raises what ``json`` raises.
    """

    text: str

    def __getitem__(self, name: str) -> JsonValue:
        return self._read()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def _read(self) -> dict[str, JsonValue]:
        content: dict[str, JsonValue] = json.loads(self.text)
        return content


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
