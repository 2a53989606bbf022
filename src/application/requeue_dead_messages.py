"""An operator lets parked messages be sent again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from attrs import frozen

from .list_dead_messages import ListDeadMessages
from .ports.outbox_queue import OutboxQueue

_AT_ONCE: Final = 500


@frozen(kw_only=True)
class RequeuedMessages:
    """Ids of messages that will be sent again, and the others with the reason why not."""

    requeued: tuple[int, ...]
    refused: Mapping[int, str]


@frozen(kw_only=True)
class RequeueDeadMessages:
    """Parked messages are unpublished ones again, with no attempts made; up to 500 at a time in one transaction.

    One that is not parked is refused with a reason and left alone. A message that is sent again may reach its readers
    behind later ones of its key, which went on without it. Repeating is harmless. With ``dry_run`` nothing is written
    and the report says what would be.
    """

    queue: OutboxQueue

    async def all(self, *, error: str | None = None, dry_run: bool = False) -> RequeuedMessages:
        """All parked messages, optionally only those with exactly this error code."""
        dead = ListDeadMessages(queue=self.queue).all(error=error)
        return await self.messages([message.id async for message in dead], dry_run=dry_run)

    async def messages(self, ids: Iterable[int], *, dry_run: bool = False) -> RequeuedMessages:
        """The named messages."""
        wanted = tuple(dict.fromkeys(ids))
        done = await self._parked() if dry_run else await self._requeue(wanted)
        return RequeuedMessages(
            requeued=tuple(id_ for id_ in wanted if id_ in done),
            refused={id_: "there is no such parked message" for id_ in wanted if id_ not in done},
        )

    async def _parked(self) -> set[int]:
        return {message.id async for message in ListDeadMessages(queue=self.queue).all()}

    async def _requeue(self, ids: tuple[int, ...]) -> set[int]:
        requeued: set[int] = set()
        for start in range(0, len(ids), _AT_ONCE):
            requeued.update(await self.queue.requeue(ids[start : start + _AT_ONCE]))
        return requeued
