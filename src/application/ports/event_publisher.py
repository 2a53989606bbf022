"""Events on their way to a broker, and what became of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from attrs import frozen


@frozen(kw_only=True)
class Event:
    """A message as the broker takes it: bytes, that nothing between here and its readers changes.

    ``key`` decides the partition; events of one topic and key are kept in order.
    """

    topic: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


@frozen(kw_only=True)
class Published:
    """The broker has it, on every replica that must have it; this is its receipt, None where a publisher has none."""

    partition: int | None
    offset: int | None


@frozen(kw_only=True)
class Unpublishable:
    """This event can never be sent as it is: too large, or refused by the topic's authorisation or its rules.

    ``code`` is stable and holds no data of the event.
    """

    code: str


@frozen(kw_only=True)
class NotPublished:
    """No answer says that the broker has it, and it may have it nevertheless: publish it again later.

    ``outage`` is True when the broker as a whole is out of reach, which is no fault of this event, and False when
    the broker, or what is set up on it, failed for this event or its topic alone.
    """

    code: str
    outage: bool


Receipt = Published | Unpublishable | NotPublished


class EventPublisher(Protocol):
    """Sends events. Contract tests: ``tests.contract.event_publisher``."""

    async def publish(self, events: Sequence[Event]) -> Sequence[Receipt]:
        """Send all of them and wait for what becomes of each; receipts come in the order of ``events``.

        No two events have the same topic and key (`ValueError`), so none can overtake another of its key, whatever
        fails. Answers within a bound that the publisher was constructed with, even when the broker never does.
        Raises `Misconfigured` when the broker refuses this client altogether (credentials, certificate): then nothing
        was sent. Cancelled, it waits for nothing; what was sent may still arrive.
        """
        ...


def ensure_keys_differ(events: Sequence[Event]) -> None:
    """What every publisher asks of its events: raises `ValueError` when two have the same topic and key."""
    if len({(event.topic, event.key) for event in events}) < len(events):
        raise ValueError("two events of one publish have the same topic and key")
