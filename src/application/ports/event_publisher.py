"""Where integration events are published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from attrs import frozen


@frozen(kw_only=True)
class PublishableEvent:
    """One event ready to be sent: its value is the envelope's bytes, its key orders it within its topic."""

    topic: str
    key: str
    value: bytes
    headers: Mapping[str, str]


@frozen(kw_only=True)
class Published:
    """The broker's receipt: every in-sync replica has the event."""

    partition: int
    offset: int


@frozen(kw_only=True)
class Unpublishable:
    """This event can never be sent as it is: too large, not encodable, its topic refused. ``code`` is stable."""

    code: str


@frozen(kw_only=True)
class NotPublished:
    """No receipt came, through no fault of the event; it may have been published all the same. ``code`` is stable."""

    code: str


Receipt = Published | Unpublishable | NotPublished


class EventPublisher(Protocol):
    """Publishes events at least once. Contract tests: ``tests.contract.event_publisher``."""

    async def publish(self, events: Sequence[PublishableEvent]) -> Sequence[Receipt]:
        """Send all of them and wait for their receipts, which come in the order of ``events``.

        Of events with the same key none may follow another one in ``events``: the caller sends those one after the
        other, so that order does not depend on what a client does with retries. Bounded in time by the adapter's send
        time-out, even when the client's own calls never return; a producer that failed for good is replaced before
        the next call. Cancellation leaves nothing running. Raises `Misconfigured` when credentials, certificate or
        addresses are refused.
        """
        ...
