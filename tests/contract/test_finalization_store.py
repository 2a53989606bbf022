"""Every adapter keeps the contract of the recordings' store."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from tests.contract.finalization_harness import FinalizationHarness
from tests.contract.finalization_memory_harness import MemoryFinalizationHarness
from tests.contract.finalization_postgres_harness import (
    HostsFinalizationHarness,
    PooledFinalizationHarness,
    hosts_finalization_harness,
    pooled_finalization_harness,
)
from tests.contract.finalization_store import FinalizationStoreContract
from tests.support.recordings import ENTRY_ID


class TestMemoryFinalizationStore(FinalizationStoreContract):
    @pytest.fixture
    async def harness(self) -> MemoryFinalizationHarness:
        return MemoryFinalizationHarness()


class TestPostgresFinalizationStore(FinalizationStoreContract):
    @pytest.fixture
    async def harness(self, database_url: str) -> AsyncGenerator[PooledFinalizationHarness]:
        async with pooled_finalization_harness(database_url) as harness:
            yield harness


class TestPostgresFinalizationStoreOnAHostsConnection(FinalizationStoreContract):
    @pytest.fixture
    async def harness(self, database_url: str) -> AsyncGenerator[HostsFinalizationHarness]:
        async with hosts_finalization_harness(database_url) as harness:
            yield harness

    async def test_settling_skips_what_ingest_has_in_hand_and_loses(
        self, harness: FinalizationHarness
    ) -> None:
        """There is nobody else: whoever has a unit of work open on the one connection goes on in that one."""
        async with harness.store.begin():
            with pytest.raises(RuntimeError):
                await harness.store.snapshot(ENTRY_ID)
