"""Every publisher of events keeps the contract."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator, Sequence
from itertools import count
from pathlib import Path

import pytest
from messenger_jobs.adapters.kafka.event_publisher import KafkaEventPublisher
from messenger_jobs.adapters.kafka.security import KafkaSecurity
from messenger_jobs.adapters.local.event_publisher import JsonLinesEventPublisher
from messenger_jobs.adapters.memory.event_publisher import MemoryEventPublisher, MemoryTopic
from messenger_jobs.application.ports.event_publisher import Event

from tests.contract.event_publisher import (
    Arrived,
    BrokerContract,
    BrokerHarness,
    EventPublisherContract,
    EventPublisherHarness,
)
from tests.support.kafka_log import records_of
from tests.support.kafka_servers import KafkaTestServer


class MemoryHarness(BrokerHarness):
    def __init__(self) -> None:
        self.publisher = self.memory = MemoryEventPublisher()
        self._numbers = count()

    def new_topic(self, partitions: int = 1) -> str:
        return self._add(MemoryTopic(partitions=partitions))

    def new_topic_with_limit(self, max_message_bytes: int) -> str:
        return self._add(MemoryTopic(max_message_bytes=max_message_bytes))

    async def arrived(self, topic: str) -> Sequence[Arrived]:
        return [Arrived(one.event, one.partition, one.offset) for one in self.memory.topics[topic].log]

    def _add(self, topic: MemoryTopic) -> str:
        name = f"topic-{next(self._numbers)}"
        self.memory.add_topic(name, topic)
        return name


class FileHarness(EventPublisherHarness):
    def __init__(self, file: Path) -> None:
        self.file = file
        self.publisher = JsonLinesEventPublisher(file)
        self._numbers = count()

    def new_topic(self, partitions: int = 1) -> str:
        return f"topic-{next(self._numbers)}"

    async def arrived(self, topic: str) -> Sequence[Arrived]:
        if not self.file.exists():
            return []
        lines = [json.loads(line) for line in self.file.read_text("utf-8").split("\n")[:-1]]
        return [
            Arrived(_event(line), None, number)
            for number, line in enumerate(lines, 1)
            if line["topic"] == topic
        ]


class KafkaHarness(BrokerHarness):
    def __init__(self, publisher: KafkaEventPublisher, kafka: KafkaTestServer) -> None:
        self.publisher = publisher
        self.kafka = kafka

    def new_topic(self, partitions: int = 1) -> str:
        return self.kafka.topic(partitions)

    def new_topic_with_limit(self, max_message_bytes: int) -> str:
        return self.kafka.topic(settings={"max.message.bytes": str(max_message_bytes)})

    async def arrived(self, topic: str) -> Sequence[Arrived]:
        return [
            Arrived(
                Event(topic=topic, key=record.key, value=record.value, headers=record.headers),
                record.partition,
                record.offset,
            )
            for record in records_of(self.kafka.bootstrap_servers, topic)
        ]


class TestMemoryEventPublisher(BrokerContract):
    @pytest.fixture
    async def harness(self) -> MemoryHarness:
        return MemoryHarness()


class TestJsonLinesEventPublisher(EventPublisherContract):
    @pytest.fixture
    async def harness(self, tmp_path: Path) -> FileHarness:
        return FileHarness(tmp_path / "events.jsonl")


class TestKafkaEventPublisher(BrokerContract):
    @pytest.fixture
    async def harness(self, kafka: KafkaTestServer) -> AsyncGenerator[KafkaHarness]:
        security = KafkaSecurity(bootstrap_servers=kafka.bootstrap_servers)
        async with KafkaEventPublisher(security) as publisher:
            yield KafkaHarness(publisher, kafka)


def _event(line: dict[str, object]) -> Event:
    headers = line["headers"]
    assert isinstance(headers, list)
    return Event(
        topic=str(line["topic"]),
        key=_bytes(line["key"]),
        value=_bytes(line["value"]),
        headers=tuple((name, _bytes(value) or b"") for name, value in headers),
    )


def _bytes(readable: object) -> bytes | None:
    match readable:
        case str(text):
            return text.encode()
        case {"base64": str(encoded)}:
            return base64.b64decode(encoded)
        case _:
            assert readable is None
            return None
