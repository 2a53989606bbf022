"""What waits for an operator in the outbox."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Final

from attrs import frozen

from .ports.outbox_queue import DeadMessage, OutboxQueue

_PAGE: Final = 500


@frozen(kw_only=True)
class ListDeadMessages:
    """Reads parked messages, page by page."""

    queue: OutboxQueue

    async def all(self, *, error: str | None = None) -> AsyncGenerator[DeadMessage]:
        """All of them by id, optionally only those with exactly this error code."""
        after_id = 0
        while True:
            page = await self.queue.dead(after_id=after_id, limit=_PAGE)
            for message in page:
                if error in (None, message.error_code):
                    yield message
            if len(page) < _PAGE:
                return
            after_id = page[-1].id
