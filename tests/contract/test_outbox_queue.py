"""Every adapter keeps the contract of the outbox queue."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from tests.contract.outbox_queue import OutboxQueueContract
from tests.contract.outbox_queue_memory_harness import MemoryOutboxQueueHarness
from tests.contract.outbox_queue_postgres_harness import (
    HostsOutboxQueueHarness,
    PooledOutboxQueueHarness,
    hosts_outbox_queue_harness,
    pooled_outbox_queue_harness,
)


class TestMemoryOutboxQueue(OutboxQueueContract):
    @pytest.fixture
    async def harness(self) -> MemoryOutboxQueueHarness:
        return MemoryOutboxQueueHarness()


class TestPostgresOutboxQueue(OutboxQueueContract):
    @pytest.fixture
    async def harness(self, database_url: str) -> AsyncGenerator[PooledOutboxQueueHarness]:
        async with pooled_outbox_queue_harness(database_url) as harness:
            yield harness


class TestPostgresOutboxQueueOnAHostsConnection(OutboxQueueContract):
    @pytest.fixture
    async def harness(self, database_url: str) -> AsyncGenerator[HostsOutboxQueueHarness]:
        async with hosts_outbox_queue_harness(database_url) as harness:
            yield harness
