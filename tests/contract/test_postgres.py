"""The PostgreSQL adapter keeps every port's contract."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator

import psycopg
import pytest

from tests.contract.outbox import OutboxContract
from tests.contract.postgres_harness import HostsHarness, PooledHarness, hosts_harness, pooled_harness
from tests.contract.postgres_run_locks_harness import PostgresRunLocksHarness
from tests.contract.provisioning_harness import ProvisioningHarness
from tests.contract.provisioning_store import ProvisioningStoreContract
from tests.contract.run_locks import RunLocksContract
from tests.support.builders import RULES


class TestPostgresProvisioningStore(ProvisioningStoreContract):
    @pytest.fixture
    async def harness(self, database_url: str) -> AsyncGenerator[PooledHarness]:
        async with pooled_harness(database_url) as harness:
            yield harness


class TestPostgresProvisioningStoreOnAHostsConnection(ProvisioningStoreContract):
    @pytest.fixture
    async def harness(self, database_url: str) -> AsyncGenerator[HostsHarness]:
        async with hosts_harness(database_url) as harness:
            yield harness

    async def test_nobody_sees_what_is_not_committed(self, harness: ProvisioningHarness) -> None:
        """There is nobody else: whoever has a unit of work open on the one connection goes on in that one."""
        async with harness.store.begin():
            with pytest.raises(RuntimeError):
                await harness.store.poison_ids(rules=RULES)


class TestPostgresOutbox(OutboxContract):
    @pytest.fixture
    async def harness(self, database_url: str) -> AsyncGenerator[PooledHarness]:
        async with pooled_harness(database_url) as harness:
            yield harness


class TestPostgresRunLocks(RunLocksContract):
    @pytest.fixture
    def harness(self, database_url: str) -> Generator[PostgresRunLocksHarness]:
        with psycopg.connect(database_url, autocommit=True) as observer:
            yield PostgresRunLocksHarness(database_url, observer)
