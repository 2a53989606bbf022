"""aiokafka's idempotent producer, which can be left for good at any moment.

By itself it cannot: its ``stop()`` waits for a broker that may never come back, and cancelling it leaves tasks and
sockets behind. What belongs to it is therefore known here, down to the library's own attributes; nowhere else are
those used.
"""
# pyright: reportPrivateUsage=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import asyncio
import socket
import struct
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped]  # ships no types
from aiokafka.conn import AIOKafkaConnection  # type: ignore[import-untyped]  # ships no types
from aiokafka.errors import (  # type: ignore[import-untyped]  # ships no types
    KafkaError,
    NoBrokersAvailable,
    TopicAuthorizationFailedError,
)
from aiokafka.partitioner import DefaultPartitioner  # type: ignore[import-untyped]  # ships no types
from aiokafka.protocol.metadata import MetadataRequest  # type: ignore[import-untyped]  # ships no types
from aiokafka.record.default_records import (  # type: ignore[import-untyped]  # ships no types
    DefaultRecordBatchBuilder,
)

from ...application.ports.event_publisher import Event
from .errors import misconfiguration_in
from .security import KafkaSecurity

_CLIENT_ID: Final = "pin-messenger-jobs"
_RETRY_BACKOFF: Final = 250  # milliseconds; the library complains about an outage once in each
_BATCH_BYTES: Final = 131_072
"""Of one partition: small batches wait for each other. One that a topic does not take is sent again event by event."""
_CLOSE_AT_ONCE: Final = struct.pack("ii", 1, 0)  # a linger of no seconds: what is not sent yet is thrown away


class AbandonableProducer:
    """One producer id, from `start` to `abandon`; times in seconds.

    `request_timeout` bounds each exchange with a broker, not a send as a whole: a send ends when a broker has stored
    the event or refuses it. Until then the library sends it again, which stores it once and in its place.

    Raises:
        Misconfigured: the file of certificates cannot be used.
    """

    def __init__(self, security: KafkaSecurity, *, request_timeout: float, max_message_bytes: int) -> None:
        self._connection_arguments: dict[str, Any] = {
            "client_id": _CLIENT_ID,
            "request_timeout_ms": round(request_timeout * 1000),
            **security.connection_arguments(),
        }
        self._producer: Any = AIOKafkaProducer(
            bootstrap_servers=security.bootstrap_servers,
            enable_idempotence=True,  # and with it acks=all
            max_batch_size=_BATCH_BYTES,
            retry_backoff_ms=_RETRY_BACKOFF,
            **self._connection_arguments,
        )
        self._max_message_bytes = max_message_bytes
        self._partition_of = DefaultPartitioner()
        self._abandoned = False
        self._requests: set[asyncio.Task[Any]] = set()
        self._send_request = self._producer._sender._send_produce_req
        self._producer._sender._send_produce_req = self._known_request
        self._connection_closed = self._producer.client._on_connection_closed
        self._producer.client._on_connection_closed = self._closed_for_good

    async def start(self) -> None:
        """Connect and get a producer id, for as long as that takes. After an error or a cancellation: `abandon`.

        Raises the reason when none of the bootstrap servers is of use: one for which a person must set something up, if
        there is one.
        """
        client = self._producer.client
        metadata = await self.ask_for_brokers()
        client.cluster.update_metadata(metadata)
        client._sync_task = asyncio.create_task(client._md_synchronizer())
        await self._producer._sender.start()

    async def ask_for_brokers(self) -> Any:
        """What a bootstrap server, asked on a connection of its own, knows of the cluster; raises as `start`."""
        reasons: list[Exception] = []
        for host, port, _ in self._producer.client.hosts:
            connection = AIOKafkaConnection(host, port, on_close=_closed, **self._connection_arguments)
            try:
                await connection.connect()
                metadata: Any = await connection.send(MetadataRequest([]))
                if metadata.brokers:
                    return metadata
            except (OSError, KafkaError) as error:
                reasons.append(error)
            finally:
                if (end := _break_off(connection)) is not None:
                    await asyncio.wait([end])
        for_a_person = (reason for reason in reasons if misconfiguration_in(reason))
        raise next(for_a_person, None) or next(iter(reasons), None) or NoBrokersAvailable()

    @property
    def works(self) -> bool:
        """False once one of its own tasks has ended: soon nothing will be sent any more."""
        return not (self._producer._sender.sender_task.done() or self._producer.client._sync_task.done())

    @property
    def connected(self) -> bool:
        """Whether a broker keeps a connection with it, as far as is known."""
        return any(connection.connected() for connection in self._producer.client._conns.values())

    async def knows(self, topic: str) -> bool:
        """Whether the topic is there; asks a broker when it is not known yet.

        Raises:
            TopicAuthorizationFailedError: it may be there, but not for this user.
            NoBrokersAvailable: no broker answers.
        """
        client = self._producer.client
        if topic not in client._topics:
            client.add_topic(topic)  # else an update that is made for another topic's sake forgets this one
        if client.cluster.partitions_for_topic(topic) is not None:
            return True
        try:
            for _ in range(2):  # an update that is under way already does not ask for this topic
                if not await client.force_metadata_update():
                    raise NoBrokersAvailable
                if client.cluster.partitions_for_topic(topic) is not None:
                    return True
            if topic in client.cluster.unauthorized_topics:
                raise TopicAuthorizationFailedError(topic)
            return False
        finally:
            if client.cluster.partitions_for_topic(topic) is None:
                client._topics.discard(topic)  # every later update would ask and complain about it again

    def takes(self, event: Event) -> bool:
        """Whether the event is within `max_message_bytes`."""
        size = DefaultRecordBatchBuilder.estimate_size_in_bytes(event.key, event.value, list(event.headers))
        within: bool = size <= self._max_message_bytes
        return within

    def by_partition(self, topic: str, events: Iterable[Event]) -> Mapping[int, Sequence[Event]]:
        """Events of a known topic, by where Kafka's default partitioner puts their keys."""
        cluster, found = self._producer.client.cluster, defaultdict[int, list[Event]](list)
        partitions = sorted(cluster.partitions_for_topic(topic))
        available = sorted(cluster.available_partitions_for_topic(topic))
        for event in events:
            found[self._partition_of(event.key, partitions, available)].append(event)
        return found

    async def send(
        self, topic: str, partition: int, events: Sequence[Event]
    ) -> tuple[Sequence[Event], asyncio.Future[Any]]:
        """Hand over the first of the events, as many as one batch holds: which these are, and their common answer.

        The answer has the ``partition``, and the ``offset`` of the first, which the others follow; or an error. Waits
        until the partition's batch before is on its way; cancelled meanwhile, nothing is sent.
        """
        batch, taken = self._producer.create_batch(), 0
        for event in events:
            if not batch.append(
                timestamp=None, key=event.key, value=event.value, headers=list(event.headers)
            ):
                break
            taken += 1
        batch.close()
        answer: asyncio.Future[Any] = await self._producer.send_batch(batch, topic, partition=partition)
        return events[:taken], answer

    async def abandon(self) -> None:
        """End everything that belongs to the producer, without asking a broker; once is enough, twice is no harm.

        From the call on, before anything is awaited, not a byte is sent any more: what the system still holds is thrown
        away. A broker may only have what had reached its host before.
        """
        self._abandoned = True
        self._producer._closed = True  # its finaliser would complain
        client = self._producer.client
        connections = list(client._conns.values())
        tasks = {self._producer._sender.sender_task, client._sync_task, *self._requests}
        tasks |= {connection._read_task for connection in connections}
        running = {task for task in tasks if task is not None}
        for task in running:
            task.cancel()
        ends = [_break_off(connection) for connection in connections]
        if waiters := [*running, *(end for end in ends if end is not None)]:
            await asyncio.wait(waiters)

    def _closed_for_good(self, connection: Any, reason: object) -> None:
        self._connection_closed(connection, reason)
        _closed(connection, reason)

    async def _known_request(self, node_id: int, batches: object) -> None:
        if self._abandoned:
            raise asyncio.CancelledError  # it was not begun yet when everything was ended
        task = asyncio.current_task()
        assert task is not None
        self._requests.add(task)
        try:
            await self._send_request(node_id, batches)
        finally:
            self._requests.discard(task)


def _closed(connection: Any, reason: object) -> None:
    """For connections that the library closes: by itself, TLS would wait for the other side's farewell."""
    del reason
    _break_off(connection)


def _break_off(connection: Any) -> asyncio.Future[None] | None:
    """Close it with a reset, if it is open; the future is done when it is closed."""
    transport = None if connection._protocol is None else connection._protocol._transport
    if transport is None:
        return None
    with suppress(OSError, AttributeError):  # the other side was first, or it was done already
        handle = transport.get_extra_info("socket")
        handle.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _CLOSE_AT_ONCE)
    connection.close()
    transport.abort()
    closed: asyncio.Future[None] = connection._closed_fut
    return closed
