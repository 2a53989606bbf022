"""Messages as they came, and as they go to the dead letter topic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from ...application.ports.consumer_telemetry import DeadLetter, MessagePlace
from ...application.ports.event_publisher import Event

DEAL_CREATED_TOPIC: Final = "pin.crm.deal-created.v1"
DEAL_CREATED_GROUP: Final = "messenger.deal-created"


class Record(Protocol):
    """A message as the broker gave it, byte for byte."""

    @property
    def topic(self) -> str:
        """Its topic."""
        ...

    @property
    def partition(self) -> int:
        """Its partition."""
        ...

    @property
    def offset(self) -> int:
        """Its place in the partition."""
        ...

    @property
    def key(self) -> bytes | None:
        """Its key."""
        ...

    @property
    def value(self) -> bytes | None:
        """Its value; None, and not empty, for a tombstone."""
        ...

    @property
    def headers(self) -> Sequence[tuple[str, bytes]]:
        """Its headers, in order; names may repeat. Whatever it is typed as, a value may be None."""
        ...


def place_of(record: Record) -> MessagePlace:
    """Where the message stands."""
    return MessagePlace(partition=record.partition, offset=record.offset)


def dead_letter_topic(topic: str) -> str:
    """Where the messages of ``topic`` go that we cannot handle."""
    return f"{topic}.messenger.dlq"


def whole_letter(record: Record, letter: DeadLetter, *, group: str) -> Event:
    """The message unchanged, with headers added behind its own that say why and where it comes from."""
    return Event(
        topic=dead_letter_topic(record.topic),
        key=record.key,
        value=record.value,
        headers=(*record.headers, *_headers(record, letter, group)),
    )


def letter_without_value(record: Record, letter: DeadLetter, *, group: str) -> Event:
    """Only the headers that say why and where the message is: for one that the dead letter topic does not take.

    The key is the place as well: the message's own may be what is too large, and without any there is no message.
    """
    return Event(
        topic=dead_letter_topic(record.topic),
        key=f"{record.partition}/{record.offset}".encode(),
        value=None,
        headers=(*_headers(record, letter, group), ("dlq-value-lost", b"true")),
    )


def _headers(record: Record, letter: DeadLetter, group: str) -> tuple[tuple[str, bytes], ...]:
    added = {
        "dlq-reason": letter.reason,
        "dlq-explanation": letter.sentence,
        "dlq-topic": record.topic,
        "dlq-partition": str(record.partition),
        "dlq-offset": str(record.offset),
        "dlq-consumer-group": group,
    }
    return tuple((name, value.encode()) for name, value in added.items())
