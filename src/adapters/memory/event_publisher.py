"""A broker in memory, as strict as a real one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from zlib import crc32

from attrs import define, field, frozen

from ...application.ports.errors import Misconfigured, PortError
from ...application.ports.event_publisher import (
    Event,
    NotPublished,
    Published,
    Receipt,
    Unpublishable,
    ensure_keys_differ,
)
from .switch import Phase, Step, Switch, let_others_run

PUBLISH: Final = "publish events"
"""The operation's name in its steps."""


@frozen(kw_only=True)
class StoredEvent:
    """A record of the broker's log."""

    event: Event
    partition: int
    offset: int


@define(kw_only=True)
class MemoryTopic:
    """A topic, and what is in it, oldest first; times and retention do not exist."""

    partitions: int = 1
    max_message_bytes: int = 1_048_588
    refused: bool = False
    """Whether authorisation keeps the client from writing."""
    log: list[StoredEvent] = field(factory=list[StoredEvent])

    def append(self, event: Event) -> StoredEvent:
        """Store it at the end of its key's partition."""
        partition = crc32(event.key or b"") % self.partitions
        offset = sum(stored.partition == partition for stored in self.log)
        stored = StoredEvent(event=event, partition=partition, offset=offset)
        self.log.append(stored)
        return stored


@define(eq=False)
class MemoryEventPublisher:
    """See `EventPublisher`. Topics are there when a test puts them into ``topics``, and not before.

    A `PortError` that the switch raises is a request, or an answer, that got lost; a `Misconfigured` among them, that
    the broker refuses this client.
    """

    _switch: Switch = field(default=let_others_run, kw_only=True, alias="switch")
    topics: dict[str, MemoryTopic] = field(factory=dict[str, MemoryTopic], init=False)
    outage: str | None = field(default=None, init=False)
    """While it is set, no broker can be reached; the code says why."""
    _failures: dict[tuple[str, bytes | None], NotPublished] = field(
        factory=dict[tuple[str, bytes | None], NotPublished], init=False
    )

    def add_topic(self, name: str, topic: MemoryTopic | None = None) -> MemoryTopic:
        """Let there be this topic."""
        return self.topics.setdefault(name, topic or MemoryTopic())

    def fail(self, topic: str, key: bytes | None, failure: NotPublished) -> None:
        """Let every event of this topic and key fail by itself."""
        self._failures[topic, key] = failure

    def heal(self) -> None:
        """Let nothing fail any more."""
        self.outage = None
        self._failures.clear()

    async def publish(self, events: Sequence[Event]) -> Sequence[Receipt]:
        """See `EventPublisher.publish`."""
        ensure_keys_differ(events)
        if not events:
            return []
        try:
            await self._switch(Step(PUBLISH, Phase.SENT))
        except Misconfigured:
            raise
        except PortError as error:
            return _all_lost(events, error.code)
        if self.outage is not None:
            return _all_lost(events, self.outage)
        receipts = [self._receipt(event) for event in events]
        try:
            await self._switch(Step(PUBLISH, Phase.ANSWERED))
        except PortError as error:
            return _all_lost(events, error.code)
        return receipts

    def _receipt(self, event: Event) -> Receipt:
        if event.key is None and event.value is None:
            return Unpublishable(code="NO_KEY_AND_NO_VALUE")
        topic = self.topics.get(event.topic)
        if topic is None:
            return NotPublished(code="UNKNOWN_TOPIC", outage=False)
        if topic.refused:
            return Unpublishable(code="TOPIC_REFUSED")
        if _size(event) > topic.max_message_bytes:
            return Unpublishable(code="MESSAGE_TOO_LARGE")
        if (failure := self._failures.get((event.topic, event.key))) is not None:
            return failure
        stored = topic.append(event)
        return Published(partition=stored.partition, offset=stored.offset)


def _all_lost(events: Sequence[Event], code: str) -> list[Receipt]:
    return [NotPublished(code=code, outage=True) for _ in events]


def _size(event: Event) -> int:
    headers = sum(len(name.encode()) + len(value) for name, value in event.headers)
    return len(event.key or b"") + len(event.value or b"") + headers
