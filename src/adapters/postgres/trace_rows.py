"""Between rows and what they tell operators."""

from __future__ import annotations

from typing import Any

from ...application.ports.traces import MessageTrace


def message_trace(row: tuple[Any, ...]) -> MessageTrace:
    """The message in ``id, event_id, event_type, occurred_at, published_at, dead_at``."""
    id_, event_id, event_type, occurred_at, published_at, dead_at = row
    return MessageTrace(
        id=id_,
        event_id=event_id,
        event_type=event_type,
        occurred_at=occurred_at,
        published_at=published_at,
        dead_at=dead_at,
    )
