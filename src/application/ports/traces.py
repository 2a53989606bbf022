"""What a row has left behind elsewhere, as operators see it: ids, kinds and times, never contents."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from attrs import frozen

MOST_EVENTS = 50
"""A chat's feed is as long as its life: operators see the latest entries."""


@frozen(kw_only=True)
class EventTrace:
    """An entry of a chat's feed."""

    id: UUID
    type: str
    occurred_at: datetime


@frozen(kw_only=True)
class MessageTrace:
    """A message of the outbox; neither ``published_at`` nor ``dead_at`` while it waits for the relay."""

    id: int
    event_id: UUID
    event_type: str
    occurred_at: datetime
    published_at: datetime | None
    dead_at: datetime | None


@frozen(kw_only=True)
class NoticeTrace:
    """A hint for connected clients; ``dispatched_at`` is None while it waits."""

    id: UUID
    kind: str
    created_at: datetime
    dispatched_at: datetime | None
