"""What the memory database's rows tell operators."""

from __future__ import annotations

from ...application.ports.traces import MessageTrace
from .schema import OutboxRow


def message_trace(row: OutboxRow) -> MessageTrace:
    """The message without its contents."""
    return MessageTrace(
        id=row.id,
        event_id=row.message.event_id,
        event_type=row.message.event_type,
        occurred_at=row.message.occurred_at,
        published_at=row.published_at,
        dead_at=row.dead_at,
    )
