"""The outbox in PostgreSQL, as its relay and its operators see it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from math import nan
from typing import Any, Final, LiteralString
from uuid import UUID

from attrs import frozen
from psycopg.abc import Params

from ...application.ports.outbox import OutboxMessage, StoredJson
from ...application.ports.outbox_queue import (
    DeadMessage,
    FailedMessage,
    OutboxBacklog,
    PublishedMessage,
    QueuedMessage,
)
from . import outbox_queue_statements as sql
from .connections import Connections
from .fetching import Row, UnreadableRow, changed_rows_on, rows_from, rows_one_by_one

_NEVER: Final = False  # the plan is made for the very limit and time, which costs less than a bad one


@frozen
class PostgresOutboxQueue:
    """See `OutboxQueue`. Every method costs one statement."""

    _connections: Connections

    async def newest_id(self) -> int | None:
        """See `OutboxQueue.newest_id`."""
        ((newest,),) = await self._rows(sql.NEWEST_ID, {})
        id_: int | None = newest
        return id_

    async def unpublished(self, *, after_id: int, up_to: int, limit: int) -> Sequence[QueuedMessage]:
        """See `OutboxQueue.unpublished`."""
        parameters = {"after_id": after_id, "up_to": up_to, "limit": limit}
        async with self._connections.statement() as connection:
            rows = await rows_one_by_one(connection, sql.UNPUBLISHED, parameters, prepare=_NEVER)
        return [_unreadable(row) if isinstance(row, UnreadableRow) else _queued(row) for row in rows]

    async def mark_published(self, published: Sequence[PublishedMessage], *, at: datetime) -> int:
        """See `OutboxQueue.mark_published`."""
        return await self._change(
            sql.MARK_PUBLISHED,
            {
                "ids": [message.id for message in published],
                "partitions": [message.partition for message in published],
                "offsets": [message.offset for message in published],
                "at": at,
            },
        )

    async def mark_failed(self, failed: Sequence[FailedMessage], *, at: datetime) -> int:
        """See `OutboxQueue.mark_failed`."""
        return await self._change(
            sql.MARK_FAILED,
            {
                "ids": [message.id for message in failed],
                "errors": [message.error_code for message in failed],
                "dead": [message.dead for message in failed],
                "at": at,
            },
        )

    async def prune(self, *, published_before: datetime, limit: int) -> int:
        """See `OutboxQueue.prune`."""
        return await self._change(sql.PRUNE, {"published_before": published_before, "limit": limit})

    async def dead(self, *, after_id: int, limit: int) -> Sequence[DeadMessage]:
        """See `OutboxQueue.dead`."""
        rows = await self._rows(sql.DEAD, {"after_id": after_id, "limit": limit})
        return [_dead(row) for row in rows]

    async def requeue(self, ids: Collection[int]) -> Collection[int]:
        """See `OutboxQueue.requeue`. In the order of ids."""
        rows = await self._rows(sql.REQUEUE, {"ids": list(ids)})
        return sorted(id_ for (id_,) in rows)

    async def backlog(self) -> OutboxBacklog:
        """See `OutboxQueue.backlog`. Costs as much as there is to count."""
        ((unpublished, dead, oldest),) = await self._rows(sql.BACKLOG, {})
        return OutboxBacklog(unpublished=unpublished, dead=dead, oldest_created_at=oldest)

    async def _rows(self, statement: LiteralString, parameters: Params) -> list[Row]:
        return await rows_from(self._connections, statement, parameters, prepare=_NEVER)

    async def _change(self, statement: LiteralString, parameters: Params) -> int:
        async with self._connections.statement() as connection:
            return await changed_rows_on(connection, statement, parameters, prepare=_NEVER)


def _queued(row: tuple[Any, ...]) -> QueuedMessage:
    (
        id_,
        event_id,
        topic,
        message_key,
        aggregate_type,
        aggregate_id,
        event_type,
        contract_version,
        payload,
        headers,
        occurred_at,
        dedupe_key,
        attempts,
    ) = row
    message = OutboxMessage(
        event_id=event_id,
        topic=topic,
        message_key=message_key,
        aggregate_type=aggregate_type,
        aggregate_id=aggregate_id,
        event_type=event_type,
        contract_version=contract_version,
        payload=StoredJson(payload),
        headers=headers,
        occurred_at=occurred_at,
        dedupe_key=dedupe_key,
    )
    return QueuedMessage(id=id_, message=message, attempts=attempts)


def _unreadable(row: UnreadableRow) -> QueuedMessage:
    """A message that takes its place in the order of its key, and that no envelope takes, so that it is parked."""
    texts = [text or "" for text in row.columns]
    message = OutboxMessage(
        event_id=UUID(texts[1]),
        topic=texts[2],
        message_key=texts[3],
        aggregate_type=texts[4],
        aggregate_id=texts[5],
        event_type=texts[6],
        contract_version=int(texts[7]),
        payload={"unreadable": nan},
        headers={},
        occurred_at=datetime.min.replace(tzinfo=UTC),
        dedupe_key=None,
    )
    return QueuedMessage(id=int(texts[0]), message=message, attempts=int(texts[12]))


def _dead(row: tuple[Any, ...]) -> DeadMessage:
    id_, event_id, topic, message_key, attempts, error_code, dead_at = row
    return DeadMessage(
        id=id_,
        event_id=event_id,
        topic=topic,
        message_key=message_key,
        attempts=attempts,
        error_code=error_code,
        dead_at=dead_at,
    )
