"""The outbox from the relay's side."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from attrs import frozen

from .event_publisher import Published
from .outbox import OutboxMessage


@frozen(kw_only=True)
class StoredMessage:
    """An unpublished row of ``messenger.outbox_messages``; ``id`` is its place in the queue."""

    id: int
    message: OutboxMessage


@frozen(kw_only=True)
class OutboxBacklog:
    """Messages that still have to be published, and those that were parked for an operator."""

    unpublished: int
    dead: int
    oldest_created_at: datetime | None


class OutboxQueue(Protocol):
    """Unpublished messages. Contract tests: ``tests.contract.outbox_queue``.

    Every method is a transaction of its own and raises `DatabaseUnavailable`, `RowRolledBack` or `Misconfigured`.
    """

    async def unpublished(self, *, after_id: int, limit: int) -> Sequence[StoredMessage]:
        """The next messages neither published nor parked, by id, behind ``after_id`` (0 for the first)."""
        ...

    async def mark_published(self, receipts: Sequence[tuple[int, Published]], *, now: datetime) -> None:
        """Store receipts by message id; a message that is marked already keeps its first receipt."""
        ...

    async def park(self, refusals: Sequence[tuple[int, str]], *, now: datetime) -> None:
        """Park messages that can never be sent, with their ``<Class>:<CODE>``; the attempt counts."""
        ...

    async def prune(self, *, published_before: datetime, limit: int) -> int:
        """Delete at most ``limit`` messages published before that time; the number deleted. Parked ones stay."""
        ...

    async def backlog(self) -> OutboxBacklog:
        """Count what is left to do."""
        ...
