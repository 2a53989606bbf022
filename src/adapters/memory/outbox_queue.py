"""The outbox of the memory database, as its relay and its operators see it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime

from attrs import evolve, field, frozen

from ...application.ports.outbox_queue import (
    DeadMessage,
    FailedMessage,
    OutboxBacklog,
    PublishedMessage,
    QueuedMessage,
)
from .database import Transaction
from .schema import MessengerDatabase, OutboxRow
from .switch import Switch, let_others_run


@frozen
class MemoryOutboxQueue:
    """See `OutboxQueue`. Several queues may share a database, as processes do."""

    _database: MessengerDatabase
    _switch: Switch = field(default=let_others_run, kw_only=True, alias="switch")

    async def newest_id(self) -> int | None:
        """See `OutboxQueue.newest_id`."""
        return max((row.id for row in await self._rows("newest id", _is_unpublished)), default=None)

    async def unpublished(self, *, after_id: int, up_to: int, limit: int) -> Sequence[QueuedMessage]:
        """See `OutboxQueue.unpublished`."""
        rows = await self._rows("unpublished", _is_unpublished)
        return [
            QueuedMessage(id=row.id, message=row.message, attempts=row.attempts)
            for row in rows
            if after_id < row.id <= up_to
        ][:limit]

    async def mark_published(self, published: Sequence[PublishedMessage], *, at: datetime) -> int:
        """See `OutboxQueue.mark_published`."""
        receipts = {message.id: message for message in published}

        def marked(row: OutboxRow) -> OutboxRow:
            receipt = receipts[row.id]
            return evolve(
                row,
                published_at=at,
                published_partition=receipt.partition,
                published_offset=receipt.offset,
                last_error=None,
            )

        return len(await self._update("mark published", receipts, _is_unpublished, marked))

    async def mark_failed(self, failed: Sequence[FailedMessage], *, at: datetime) -> int:
        """See `OutboxQueue.mark_failed`."""
        failures = {message.id: message for message in failed}

        def marked(row: OutboxRow) -> OutboxRow:
            failure = failures[row.id]
            return evolve(
                row,
                attempts=row.attempts + 1,
                last_error=failure.error_code,
                dead_at=at if failure.dead else None,
            )

        return len(await self._update("mark failed", failures, _is_unpublished, marked))

    async def prune(self, *, published_before: datetime, limit: int) -> int:
        """See `OutboxQueue.prune`."""
        async with self._database.statement("prune", self._switch) as transaction:
            old = [
                (row.published_at, row.id)
                for row in transaction.rows(self._database.outbox)
                if row.published_at is not None and row.published_at < published_before
            ]
            pruned = 0
            for _, id_ in sorted(old):
                if pruned < limit and transaction.try_lock(self._database.outbox, id_) is not None:
                    pruned += await transaction.delete(self._database.outbox, id_)
            return pruned

    async def dead(self, *, after_id: int, limit: int) -> Sequence[DeadMessage]:
        """See `OutboxQueue.dead`."""
        rows = await self._rows("dead", _is_dead)
        return [_dead_message(row) for row in rows if row.id > after_id][:limit]

    async def requeue(self, ids: Collection[int]) -> Collection[int]:
        """See `OutboxQueue.requeue`."""

        def requeued(row: OutboxRow) -> OutboxRow:
            return evolve(row, attempts=0, last_error=None, dead_at=None)

        return await self._update("requeue", ids, _is_dead, requeued)

    async def backlog(self) -> OutboxBacklog:
        """See `OutboxQueue.backlog`."""
        rows = await self._rows("backlog", lambda row: row.published_at is None)
        waiting = [row.created_at for row in rows if _is_unpublished(row)]
        return OutboxBacklog(
            unpublished=len(waiting),
            dead=sum(map(_is_dead, rows)),
            oldest_created_at=min(waiting, default=None),
        )

    async def _rows(self, operation: str, wanted: Callable[[OutboxRow], bool]) -> list[OutboxRow]:
        async with self._database.statement(operation, self._switch) as transaction:
            rows = [row for row in transaction.rows(self._database.outbox) if wanted(row)]
            return sorted(rows, key=lambda row: row.id)

    async def _update(
        self,
        operation: str,
        ids: Iterable[int],
        wanted: Callable[[OutboxRow], bool],
        updated: Callable[[OutboxRow], OutboxRow],
    ) -> list[int]:
        """One statement; rows are locked in the order of their ids, and only changed if they are wanted by then."""
        async with self._database.statement(operation, self._switch) as transaction:
            return [id_ for id_ in sorted(set(ids)) if await self._change(transaction, id_, wanted, updated)]

    async def _change(
        self,
        transaction: Transaction,
        id_: int,
        wanted: Callable[[OutboxRow], bool],
        updated: Callable[[OutboxRow], OutboxRow],
    ) -> bool:
        outbox = self._database.outbox
        seen = transaction.get(outbox, id_)
        if seen is None or not wanted(seen):
            return False
        row = await transaction.lock(outbox, id_)
        return row is not None and wanted(row) and await transaction.update(outbox, updated(row))


def _is_unpublished(row: OutboxRow) -> bool:
    return row.published_at is None and row.dead_at is None


def _is_dead(row: OutboxRow) -> bool:
    return row.dead_at is not None


def _dead_message(row: OutboxRow) -> DeadMessage:
    assert row.dead_at is not None
    return DeadMessage(
        id=row.id,
        event_id=str(row.message.event_id),
        topic=row.message.topic,
        message_key=row.message.message_key,
        attempts=row.attempts,
        error_code=row.last_error,
        dead_at=row.dead_at,
    )
