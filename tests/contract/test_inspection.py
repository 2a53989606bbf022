"""Every adapter keeps the contracts of looking at rows."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from messenger_jobs.adapters.memory.finalization_inspection import MemoryFinalizationInspection
from messenger_jobs.adapters.memory.provisioning_inspection import MemoryProvisioningInspection
from messenger_jobs.adapters.postgres.connection_pool import PooledConnections
from messenger_jobs.adapters.postgres.finalization_inspection import PostgresFinalizationInspection
from messenger_jobs.adapters.postgres.host_connection import HostConnection
from messenger_jobs.adapters.postgres.provisioning_inspection import PostgresProvisioningInspection

from tests.contract.finalization_inspection import FinalizationInspectionContract
from tests.contract.finalization_memory_harness import MemoryFinalizationHarness
from tests.contract.finalization_postgres_harness import (
    HostsFinalizationHarness,
    PooledFinalizationHarness,
    hosts_finalization_harness,
    pooled_finalization_harness,
)
from tests.contract.memory_harness import MemoryProvisioningHarness
from tests.contract.postgres_harness import HostsHarness, PooledHarness, hosts_harness, pooled_harness
from tests.contract.provisioning_inspection import ProvisioningInspectionContract
from tests.support.builders import PROVISION_ID, a_provision

_IN_TRANSACTION = """
select pid, xact_start from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid() and state = 'idle in transaction'
"""


class TestMemoryProvisioningInspection(ProvisioningInspectionContract):
    @pytest.fixture
    async def harness(self) -> MemoryProvisioningHarness:
        return MemoryProvisioningHarness()

    @pytest.fixture
    def inspection(self, harness: MemoryProvisioningHarness) -> MemoryProvisioningInspection:
        return MemoryProvisioningInspection(harness.database)


class TestPostgresProvisioningInspection(ProvisioningInspectionContract):
    @pytest.fixture
    async def harness(self, database_url: str) -> AsyncGenerator[PooledHarness]:
        async with pooled_harness(database_url) as harness:
            yield harness

    @pytest.fixture
    def inspection(self, harness: PooledHarness) -> PostgresProvisioningInspection:
        return PostgresProvisioningInspection(PooledConnections(harness.pools[0]))

    async def test_holder_is_named(
        self, harness: PooledHarness, inspection: PostgresProvisioningInspection
    ) -> None:
        await harness.put(a_provision())
        async with harness.other.begin() as work, work.savepoint():
            await work.lock(PROVISION_ID)
            (session,) = harness.observer.execute(_IN_TRANSACTION).fetchall()
            holder = await inspection.holder(PROVISION_ID)
        assert holder is not None
        assert (holder.backend, holder.name, holder.since) == (
            session["pid"],
            "messenger-jobs",
            session["xact_start"],
        )


class TestPostgresProvisioningInspectionOnAHostsConnection(ProvisioningInspectionContract):
    @pytest.fixture
    async def harness(self, database_url: str) -> AsyncGenerator[HostsHarness]:
        async with hosts_harness(database_url) as harness:
            yield harness

    @pytest.fixture
    def inspection(self, harness: HostsHarness) -> PostgresProvisioningInspection:
        return PostgresProvisioningInspection(HostConnection(harness.host))


class TestMemoryFinalizationInspection(FinalizationInspectionContract):
    @pytest.fixture
    async def harness(self) -> MemoryFinalizationHarness:
        return MemoryFinalizationHarness()

    @pytest.fixture
    def inspection(self, harness: MemoryFinalizationHarness) -> MemoryFinalizationInspection:
        return MemoryFinalizationInspection(harness.database)


class TestPostgresFinalizationInspection(FinalizationInspectionContract):
    @pytest.fixture
    async def harness(self, database_url: str) -> AsyncGenerator[PooledFinalizationHarness]:
        async with pooled_finalization_harness(database_url) as harness:
            yield harness

    @pytest.fixture
    def inspection(self, harness: PooledFinalizationHarness) -> PostgresFinalizationInspection:
        return PostgresFinalizationInspection(PooledConnections(harness.pools[0]))


class TestPostgresFinalizationInspectionOnAHostsConnection(FinalizationInspectionContract):
    @pytest.fixture
    async def harness(self, database_url: str) -> AsyncGenerator[HostsFinalizationHarness]:
        async with hosts_finalization_harness(database_url) as harness:
            yield harness

    @pytest.fixture
    def inspection(self, harness: HostsFinalizationHarness) -> PostgresFinalizationInspection:
        return PostgresFinalizationInspection(HostConnection(harness.host))
