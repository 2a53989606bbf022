"""The CRM's topic on a broker, and consumers of it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import uuid4

from attrs import define, field, frozen
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from messenger_jobs.adapters.kafka.deal_created_client import DealCreatedClient
from messenger_jobs.adapters.kafka.deal_created_consumer import DealCreatedConsumer
from messenger_jobs.adapters.kafka.deal_created_dead_letter import dead_letter_topic
from messenger_jobs.adapters.kafka.deal_created_session import GroupClient, SessionTimes
from messenger_jobs.adapters.kafka.event_publisher import KafkaEventPublisher
from messenger_jobs.adapters.kafka.security import KafkaSecurity
from messenger_jobs.adapters.memory.consumer_telemetry import MemoryConsumerTelemetry
from messenger_jobs.adapters.postgres.connection_pool import PooledConnections, connection_pool
from messenger_jobs.adapters.postgres.provisioning_store import PostgresProvisioningStore
from messenger_jobs.adapters.system.clock import SystemClock
from messenger_jobs.application.ports.event_publisher import EventPublisher
from messenger_jobs.application.ports.provisioning import ProvisioningStore
from messenger_jobs.application.provision_created_deal import ProvisionCreatedDeal
from messenger_jobs.application.provision_deal_chat import ProvisionDealChat
from messenger_jobs.application.stop_signal import StopSignal
from messenger_jobs.domain.backoff import BackoffPolicy

from tests.support.builders import RULES
from tests.support.kafka_servers import KafkaTestServer

_TIMEOUT = 60.0  # seconds

SOON = BackoffPolicy(base=timedelta(milliseconds=50), cap=timedelta(milliseconds=400))
TIMES = SessionTimes(answer=3.0, probe_interval=0.5, close_grace=10.0)


@frozen
class CrmTopic:
    """The topic of created deals, under a name of its own, with its dead letters and a group."""

    bootstrap_servers: str
    name: str

    @property
    def group(self) -> str:
        return f"{self.name}.group"

    def send(
        self, *values: bytes | None, partition: int = 0, settings: Mapping[str, str] | None = None
    ) -> None:
        """Messages without keys and headers."""
        self.send_whole([{"value": value, "partition": partition} for value in values], settings)

    def send_whole(
        self, messages: Sequence[Mapping[str, Any]], settings: Mapping[str, str] | None = None
    ) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap_servers, **(settings or {})})
        for message in messages:
            producer.produce(self.name, **message)
        assert producer.flush(_TIMEOUT) == 0

    def dead_letters(self, count: int) -> list[Message]:
        """The first `count` of them; waits until they are there."""
        consumer = self._consumer()
        try:
            consumer.assign([TopicPartition(dead_letter_topic(self.name), 0, 0)])
            letters = consumer.consume(count, timeout=_TIMEOUT)
            assert len(letters) == count
            return letters
        finally:
            consumer.close()

    def create_dead_letters(self, settings: Mapping[str, str] | None = None) -> None:
        letters = NewTopic(dead_letter_topic(self.name), 1, 1, config=dict(settings or {}))
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        admin.create_topics([letters])[letters.topic].result(_TIMEOUT)

    def committed(self, partitions: int = 1) -> list[int]:
        """The group's offset in each partition; 0 where there is none."""
        consumer = self._consumer()
        try:
            places = [TopicPartition(self.name, number) for number in range(partitions)]
            return [max(0, place.offset) for place in consumer.committed(places, timeout=_TIMEOUT)]
        finally:
            consumer.close()

    def commit(self, offset: int) -> None:
        """Set the group back, or forth, in partition 0; while it has no members."""
        consumer = self._consumer()
        try:
            consumer.commit(offsets=[TopicPartition(self.name, 0, offset)], asynchronous=False)
        finally:
            consumer.close()

    def _consumer(self) -> Consumer:
        return Consumer({"bootstrap.servers": self.bootstrap_servers, "group.id": self.group, "log_level": 0})


def crm_topic(
    kafka: KafkaTestServer, partitions: int = 1, *, dead_letter_settings: Mapping[str, str] | None = None
) -> CrmTopic:
    topic = CrmTopic(kafka.bootstrap_servers, kafka.topic(partitions))
    topic.create_dead_letters(dead_letter_settings)
    return topic


@define
class RunningConsumer:
    """One replica's consumer, running until its context ends."""

    stop: StopSignal
    telemetry: MemoryConsumerTelemetry
    task: asyncio.Task[None]
    store: ProvisioningStore
    provisioning: ProvisionDealChat
    beats: list[float] = field(factory=list[float])

    @property
    def handled(self) -> int:
        return len(self.telemetry.reports)


@asynccontextmanager
async def consuming(
    topic: CrmTopic,
    database_url: str,
    *,
    publisher: EventPublisher | None = None,
    use_case: Callable[..., ProvisionCreatedDeal] = ProvisionCreatedDeal,
    new_client: Callable[[], GroupClient] | None = None,
    times: SessionTimes = TIMES,
    concurrency: int = 4,
) -> AsyncGenerator[RunningConsumer]:
    """A consumer of `topic` on a pool of its own; stopped, and waited for, at the end."""
    clock = SystemClock()
    security = KafkaSecurity(bootstrap_servers=topic.bootstrap_servers)
    async with AsyncExitStack() as resources:
        pool = await resources.enter_async_context(
            connection_pool(database_url, size=concurrency + 1, checkout_timeout=1.0)
        )
        store = PostgresProvisioningStore(PooledConnections(pool))
        if publisher is None:
            publisher = await resources.enter_async_context(KafkaEventPublisher(security, send_timeout=5.0))
        provisioning = ProvisionDealChat(clock=clock, new_id=uuid4, spread=random.random, rules=RULES)
        stop, telemetry = StopSignal(), MemoryConsumerTelemetry()
        consumer = DealCreatedConsumer(
            new_client=new_client or (lambda: a_client(topic)),
            provision=use_case(store=store, provisioning=provisioning, clock=clock, new_id=uuid4),
            dead_letters=publisher,
            telemetry=telemetry,
            clock=clock,
            new_id=uuid4,
            spread=random.random,
            concurrency=concurrency,
            topic=topic.name,
            group=topic.group,
            backoff=SOON,
            times=times,
        )
        running = RunningConsumer(
            stop, telemetry, asyncio.create_task(consumer.run(stop)), store, provisioning
        )
        try:
            yield running
        finally:
            stop.request()
            await asyncio.wait({running.task}, timeout=_TIMEOUT)
            running.task.cancel()
            await asyncio.gather(running.task, return_exceptions=True)


def a_client(topic: CrmTopic) -> DealCreatedClient:
    return DealCreatedClient(
        KafkaSecurity(bootstrap_servers=topic.bootstrap_servers),
        group=topic.group,
        session_timeout=timedelta(seconds=3),
        heartbeat_interval=timedelta(milliseconds=500),
    )
