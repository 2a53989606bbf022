"""The outbox as its relay and its operators see it: messages that were committed and are to be published."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol

from attrs import frozen

from .outbox import OutboxMessage


@frozen(kw_only=True)
class QueuedMessage:
    """A committed message; ``id`` grows in the order of insertion.

    That is commit order among messages whose transactions locked the same row: of one deal, or of one recording.
    """

    id: int
    message: OutboxMessage
    attempts: int


@frozen(kw_only=True)
class PublishedMessage:
    """A message that the broker has, with its receipt."""

    id: int
    partition: int | None
    offset: int | None


@frozen(kw_only=True)
class FailedMessage:
    """A message that failed by itself; ``dead`` when it can never be sent."""

    id: int
    error_code: str
    dead: bool


@frozen(kw_only=True)
class DeadMessage:
    """A parked message, as operators list it: no payload, which may hold what they must not see."""

    id: int
    event_id: str
    topic: str
    message_key: str
    attempts: int
    error_code: str | None
    dead_at: datetime


@frozen(kw_only=True)
class OutboxBacklog:
    """How much waits to be published, and since when (None without any); ``dead`` waits for an operator."""

    unpublished: int
    dead: int
    oldest_created_at: datetime | None


class OutboxQueue(Protocol):
    """Reads and marks outbox messages. Contract tests: ``tests.contract.outbox_queue``.

    Every method is a transaction of its own and raises `DatabaseUnavailable`, `RowRolledBack` or `Misconfigured`;
    none leaks a connection when it raises or is cancelled.
    """

    async def newest_id(self) -> int | None:
        """The highest id of a message that is neither published nor dead; None without any."""
        ...

    async def unpublished(self, *, after_id: int, up_to: int, limit: int) -> Sequence[QueuedMessage]:
        """The next messages that are neither published nor dead, by ``id``, behind ``after_id``, at most ``limit``.

        Ids commit out of order: each pass starts from 0 again, and ``after_id`` moves only within one. ``up_to`` is
        what `newest_id` said before the pass's first reading: then whatever was committed before a message of this
        reading, of the same deal or recording, was there for this or an earlier reading as well.
        """
        ...

    async def mark_published(self, published: Sequence[PublishedMessage], *, at: datetime) -> int:
        """Store the receipts and clear the errors; the number of messages that were not published or dead before.

        Marking one again changes nothing: the first receipt stays. So does one that is pruned meanwhile, or parked.
        """
        ...

    async def mark_failed(self, failed: Sequence[FailedMessage], *, at: datetime) -> int:
        """Count an attempt of each and store its error; park the dead; the number of messages marked.

        Published or dead ones stay as they are.
        """
        ...

    async def prune(self, *, published_before: datetime, limit: int) -> int:
        """Delete at most ``limit`` messages published before then, oldest first; dead ones stay. The number deleted."""
        ...

    async def dead(self, *, after_id: int, limit: int) -> Sequence[DeadMessage]:
        """Parked messages by ``id`` behind ``after_id``, at most ``limit``."""
        ...

    async def requeue(self, ids: Collection[int]) -> Collection[int]:
        """Let parked messages be tried again, no attempts made; the ids of those that were parked and are not now."""
        ...

    async def backlog(self) -> OutboxBacklog:
        """Count what is unpublished and what is dead."""
        ...
