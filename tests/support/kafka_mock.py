"""librdkafka's mock cluster: it speaks Kafka's protocol over TCP, from within this process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self
from uuid import uuid4

from confluent_kafka.admin import AdminClient


class MockKafka:
    """Lives as long as this client of it. It makes every topic that is asked for, with four partitions."""

    def __init__(self) -> None:
        self._client: AdminClient | None = None
        self.bootstrap_servers = ""

    def topic(self, partitions: int = 1, settings: Mapping[str, str] | None = None) -> str:
        del partitions, settings
        name = f"messenger-test-{uuid4().hex}"
        assert self._client is not None
        self._client.list_topics(name, timeout=30)
        return name

    def __enter__(self) -> Self:
        self._client = AdminClient(
            {"bootstrap.servers": "replaced-by-the-mock", "test.mock.num.brokers": 1, "log_level": 0}
        )
        brokers = self._client.list_topics(timeout=30).brokers.values()
        self.bootstrap_servers = ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
        return self

    def __exit__(self, *_: object) -> None:
        self._client = None
