"""What is in a topic."""

from __future__ import annotations

from typing import Final

from attrs import frozen
from confluent_kafka import Consumer, Message, TopicPartition

_TIMEOUT: Final = 30.0  # seconds


@frozen(kw_only=True)
class Record:
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


def records_of(bootstrap_servers: str, topic: str) -> list[Record]:
    """Everything in a topic, partition by partition, each in its order."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "nobody",
            "log_level": 0,
            "fetch.wait.max.ms": 10,
        }
    )
    try:
        partitions = consumer.list_topics(topic, timeout=_TIMEOUT).topics[topic].partitions
        return [record for partition in sorted(partitions) for record in _records(consumer, topic, partition)]
    finally:
        consumer.close()


def _records(consumer: Consumer, topic: str, partition: int) -> list[Record]:
    first, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_TIMEOUT)
    consumer.assign([TopicPartition(topic, partition, first)])
    messages = consumer.consume(end - first, timeout=_TIMEOUT) if end > first else []
    assert len(messages) == end - first, "not all of the topic could be read"
    return [
        Record(
            partition=partition,
            offset=message.offset() or 0,
            key=_bytes(message.key()),
            value=_bytes(message.value()),
            headers=_headers(message),
        )
        for message in messages
    ]


def _headers(message: Message) -> tuple[tuple[str, bytes], ...]:
    found = message.headers() or []
    assert isinstance(found, list)  # it takes a dictionary, and gives a list
    return tuple((name, _bytes(value) or b"") for name, value in found)


def _bytes(content: object) -> bytes | None:
    assert content is None or isinstance(content, bytes)
    return content
