"""A host's own outbox changes nothing of what the PostgreSQL stores promise.

It is played by the package's own table, in which the contract can look for the messages.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from attrs import define, field
from messenger_jobs.adapters.postgres.connection_pool import PooledConnections
from messenger_jobs.adapters.postgres.connections import Connection
from messenger_jobs.adapters.postgres.finalization_store import PostgresFinalizationStore
from messenger_jobs.adapters.postgres.outbox import PostgresOutbox
from messenger_jobs.adapters.postgres.provisioning_store import PostgresProvisioningStore
from messenger_jobs.application.ports.outbox import OutboxMessage

from tests.contract.finalization_postgres_harness import (
    PooledFinalizationHarness,
    pooled_finalization_harness,
)
from tests.contract.finalization_store import FinalizationStoreContract
from tests.contract.outbox import OutboxContract
from tests.contract.postgres_harness import PooledHarness, pooled_harness
from tests.contract.provisioning_store import ProvisioningStoreContract


@define
class OwnOutbox:
    """A host's outbox that remembers what went through it, committed or not."""

    messages: list[OutboxMessage] = field(factory=list[OutboxMessage])

    def on(self, connection: Connection) -> _OnConnection:
        return _OnConnection(self, PostgresOutbox(connection))


@define
class _OnConnection:
    _host: OwnOutbox
    _table: PostgresOutbox

    async def add(self, message: OutboxMessage) -> bool:
        self._host.messages.append(message)
        return await self._table.add(message)


class _ProvisioningContract:
    @pytest.fixture
    async def own(self) -> OwnOutbox:
        return OwnOutbox()

    @pytest.fixture
    async def harness(self, database_url: str, own: OwnOutbox) -> AsyncGenerator[PooledHarness]:
        async with pooled_harness(database_url) as harness:
            harness.store, harness.other = (
                PostgresProvisioningStore(PooledConnections(pool), outbox=own.on) for pool in harness.pools
            )
            yield harness
            # Whatever reached the table went through the host.
            committed = {message.event_id for message in (await harness.stored()).messages}
            assert committed <= {message.event_id for message in own.messages}


class TestProvisioningStoreWithAHostsOutbox(_ProvisioningContract, ProvisioningStoreContract):
    pass


class TestOutboxOfAHost(_ProvisioningContract, OutboxContract):
    pass


class TestFinalizationStoreWithAHostsOutbox(FinalizationStoreContract):
    @pytest.fixture
    async def harness(self, database_url: str) -> AsyncGenerator[PooledFinalizationHarness]:
        own = OwnOutbox()
        async with pooled_finalization_harness(database_url) as harness:
            harness.store, harness.other = (
                PostgresFinalizationStore(PooledConnections(pool), outbox=own.on) for pool in harness.pools
            )
            yield harness
            committed = {message.event_id for message in (await harness.stored()).messages}
            assert committed <= {message.event_id for message in own.messages}
