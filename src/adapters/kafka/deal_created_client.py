"""aiokafka's consumer, which says why it cannot start, and can be left for good within a bound.

By itself it does neither: that a password is wrong stands in its log alone, and its ``stop()`` waits for a broker that
may never come back. What belongs to it is therefore known here, down to the library's own attributes.
"""
# pyright: reportPrivateUsage=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from aiokafka import (  # type: ignore[import-untyped]  # ships no types
    AIOKafkaConsumer,
    ConsumerRebalanceListener,
    TopicPartition,
)
from aiokafka.conn import create_conn  # type: ignore[import-untyped]  # ships no types
from aiokafka.errors import KafkaConnectionError, KafkaError  # type: ignore[import-untyped]  # ships no types

from .deal_created_dead_letter import DEAL_CREATED_GROUP, Record
from .security import KafkaSecurity

_CLIENT_ID: Final = "pin-messenger-jobs"
_REQUEST_TIMEOUT: Final = timedelta(seconds=40)
_REBALANCE_TIMEOUT: Final = timedelta(seconds=30)
"""What a member may take to hand its partitions over; a request to join waits for that, so it is the shorter one."""
LEAVE_TIMEOUT: Final = 5.0
"""Seconds for leaving the group in good order; then the connections are closed, and the group notices by itself."""


class DealCreatedClient:
    """See `GroupClient`.

    Raises:
        Misconfigured: the file of certificates cannot be used.
    """

    def __init__(
        self,
        security: KafkaSecurity,
        *,
        group: str = DEAL_CREATED_GROUP,
        session_timeout: timedelta = timedelta(seconds=15),
        heartbeat_interval: timedelta = timedelta(seconds=3),
    ) -> None:
        self._arguments: dict[str, Any] = {
            "client_id": _CLIENT_ID,
            "request_timeout_ms": _milliseconds(_REQUEST_TIMEOUT),
            **security.connection_arguments(),
        }
        self._consumer: Any = AIOKafkaConsumer(
            bootstrap_servers=security.bootstrap_servers,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",  # a deal whose transaction was aborted was not created
            session_timeout_ms=_milliseconds(session_timeout),
            heartbeat_interval_ms=_milliseconds(heartbeat_interval),
            rebalance_timeout_ms=_milliseconds(_REBALANCE_TIMEOUT),
            **self._arguments,
        )

    def subscribe(self, topics: Sequence[str], *, listener: ConsumerRebalanceListener) -> None:
        """See `GroupClient.subscribe`."""
        self._consumer.subscribe(list(topics), listener=listener)

    async def start(self) -> None:
        """See `GroupClient.start`. Raises what the first of the bootstrap servers answers, when none is of use."""
        try:
            await self._consumer.start()
        except KafkaConnectionError as error:
            raise await self._reason() or error from error

    async def stop(self) -> None:
        """See `GroupClient.stop`. Afterwards nothing of the client is left, in good order or not."""
        stopping = asyncio.ensure_future(self._consumer.stop())
        try:
            await asyncio.wait({stopping}, timeout=LEAVE_TIMEOUT)
        finally:
            tasks = {stopping, *self._tasks()}
            for task in tasks:
                task.cancel()
            for connection in list(self._consumer._client._conns.values()):
                connection.close()
            await asyncio.wait(tasks, timeout=1.0)
            for task in tasks:
                if task.done() and not task.cancelled():
                    task.exception()  # looked at, so that nobody is told it never was

    async def getmany(
        self, *places: TopicPartition, timeout_ms: int, max_records: int | None = None
    ) -> Mapping[TopicPartition, Sequence[Record]]:
        """See `GroupClient.getmany`."""
        fetched: Mapping[TopicPartition, Sequence[Record]] = await self._consumer.getmany(
            *places, timeout_ms=timeout_ms, max_records=max_records
        )
        return fetched

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """See `GroupClient.commit`."""
        await self._consumer.commit(dict(offsets))

    async def committed(self, place: TopicPartition) -> int | None:
        """See `GroupClient.committed`."""
        offset: int | None = await self._consumer.committed(place)
        return offset

    async def _reason(self) -> Exception | None:
        for host, port, _ in self._consumer._client.hosts:
            try:
                (await create_conn(host, port, **self._arguments)).close()
            except (OSError, KafkaError) as error:
                reason: Exception = error
                return reason
        return None

    def _tasks(self) -> set[asyncio.Task[Any]]:
        consumer = self._consumer
        coordinator, fetcher = consumer._coordinator, consumer._fetcher
        tasks = [consumer._client._sync_task]
        if coordinator is not None:
            tasks += [
                coordinator._coordination_task,
                coordinator._heartbeat_task,
                coordinator._commit_refresh_task,
            ]
        if fetcher is not None:
            tasks += [fetcher._fetch_task, *fetcher._pending_tasks]
        return {task for task in tasks if task is not None}


def _milliseconds(time: timedelta) -> int:
    return round(time.total_seconds() * 1000)
