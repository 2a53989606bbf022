"""What `explain` says of a row is what the next cycles do with it, on a real PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Final
from uuid import UUID

import pytest
from attrs import define, field
from messenger_jobs.adapters.memory.clock import ManualClock
from messenger_jobs.adapters.memory.recording_storage import MemoryRecordingStorage
from messenger_jobs.application.chat_provision_retry import CHAT_PROVISION_RETRY
from messenger_jobs.application.cycle_report import Outcome
from messenger_jobs.application.explanation import Explanation, NextStep, Reason
from messenger_jobs.application.recording_finalize_retry import RECORDING_FINALIZE_RETRY
from messenger_jobs.application.rehearsal import UncontendedRunLocks
from messenger_jobs.application.stop_signal import StopSignal
from messenger_jobs.domain.deal_chat_provision import DealChatProvision, ProvisionStatus
from messenger_jobs.entrypoints.bootstrap import Application, bootstrap
from messenger_jobs.entrypoints.settings import load_settings

from tests.contract.finalization_postgres_harness import (
    PooledFinalizationHarness,
    pooled_finalization_harness,
)
from tests.contract.postgres_harness import PooledHarness, pooled_harness
from tests.support.builders import (
    DEAL_ID,
    MICROSECOND,
    NOW,
    PROVISION_ID,
    a_chat,
    a_provision,
)
from tests.support.explained_rows import MINUTE, PROVISIONS, RECORDINGS, Pair
from tests.support.recordings import ENTRY_ID, RECORDING_ID, SLA, a_recording, an_entry, found

COUNTS: Final = {
    NextStep.ATTEMPT: Outcome.PROVISIONED,
    NextStep.RECONCILE: Outcome.RECONCILED,
    NextStep.REPUBLISH: Outcome.REPUBLISHED,
    NextStep.CLOSE: Outcome.CLOSED,
    NextStep.DEFER: Outcome.DEFERRED,
    NextStep.REFUSE: Outcome.RETRIED,
    NextStep.QUARANTINE: Outcome.QUARANTINED,
}


@define
class Process:
    """A process on a database of the test's, at a time of the test's choosing."""

    url: str
    job: str
    clock: ManualClock = field(factory=lambda: ManualClock(NOW))
    storage: MemoryRecordingStorage = field(factory=MemoryRecordingStorage)

    def composed(self) -> AbstractAsyncContextManager[Application]:
        variables = {
            "MESSENGER_DATABASE_URL": self.url,
            "MESSENGER_RECORDINGS_ENABLED": "true",
            "MESSENGER_S3_ENDPOINT": "storage.example",
            "MESSENGER_S3_ACCESS_KEY": "key",
            "MESSENGER_S3_SECRET_KEY": "secret",
            "MESSENGER_S3_BUCKET_CALL_RECORDINGS": "calls",
        }
        return bootstrap(
            load_settings(variables),
            clock=self.clock,
            locks=UncontendedRunLocks(),
            storage=self.storage,
            spread=lambda: 0.0,
        )

    async def explain(self, id: UUID) -> Explanation:
        async with self.composed() as application:
            return (await application.jobs[self.job].inspection.explained(id)).explanation

    async def cycle(self) -> Mapping[Outcome, int]:
        async with self.composed() as application:
            report = await application.jobs[self.job].run(StopSignal())
        return {outcome: count for outcome, count in report.counts.items() if count}

    async def assert_true(self, explanation: Explanation) -> None:
        """The cycles up to the explained one leave the row, and that one takes it as explained."""
        if explanation.reason is not Reason.DUE:
            assert await self.cycle() == {}
        if explanation.taken_from is None:
            self.clock.advance(timedelta(days=365))
            assert await self.cycle() == {}
            return
        if explanation.taken_from > self.clock.now():
            self.clock.advance(explanation.taken_from - self.clock.now() - MICROSECOND)
            assert await self.cycle() == {}
            self.clock.advance(MICROSECOND)
        assert explanation.next_step is not None
        assert await self.cycle() == {COUNTS[explanation.next_step]: 1}


@pytest.fixture
async def deals(database_url: str) -> AsyncGenerator[PooledHarness]:
    async with pooled_harness(database_url) as harness:
        yield harness


@pytest.mark.parametrize(("provision", "reason"), PROVISIONS.values(), ids=PROVISIONS)
async def test_deal_is_taken_when_and_only_when_it_is_explained_to_be(
    deals: PooledHarness, database_url: str, provision: DealChatProvision, reason: Reason
) -> None:
    process = Process(database_url, CHAT_PROVISION_RETRY)
    if provision.status is ProvisionStatus.READY:
        await deals.put(a_chat())
    await deals.put(provision)

    explanation = await process.explain(DEAL_ID)

    assert explanation.reason is reason
    assert explanation.taken_now is (reason is Reason.DUE)
    await process.assert_true(explanation)


async def test_deal_that_somebody_has_locked_is_left_until_that_ends(
    deals: PooledHarness, database_url: str
) -> None:
    process = Process(database_url, CHAT_PROVISION_RETRY)
    await deals.put(a_provision())
    async with deals.other.begin() as work:
        await work.lock(PROVISION_ID)
        explanation = await process.explain(PROVISION_ID)
        assert await process.cycle() == {Outcome.SKIPPED: 1}

    assert (explanation.reason, explanation.taken_now) == (Reason.LOCKED, False)
    assert explanation.holder is not None
    assert explanation.holder.name == "messenger-jobs"
    assert (await process.explain(PROVISION_ID)).reason is Reason.DUE
    assert await process.cycle() == {Outcome.PROVISIONED: 1}


@pytest.fixture
async def uploads(database_url: str) -> AsyncGenerator[PooledFinalizationHarness]:
    async with pooled_finalization_harness(database_url) as harness:
        yield harness


@pytest.mark.parametrize(("pair", "reason", "step"), RECORDINGS.values(), ids=RECORDINGS)
async def test_recording_is_taken_when_and_as_it_is_explained(
    uploads: PooledFinalizationHarness, database_url: str, pair: Pair, reason: Reason, step: NextStep | None
) -> None:
    process = Process(database_url, RECORDING_FINALIZE_RETRY)
    process.storage.answer(a_recording().object_key, found())
    await uploads.put(*(thing for thing in pair if thing is not None))

    explanation = await process.explain(RECORDING_ID)

    assert (explanation.reason, explanation.next_step) == (reason, step)
    await process.assert_true(explanation)


async def test_recording_waits_until_the_explained_deadline(
    uploads: PooledFinalizationHarness, database_url: str
) -> None:
    process = Process(database_url, RECORDING_FINALIZE_RETRY)
    process.storage.answer(a_recording().object_key, found())
    await uploads.put(a_recording(session_ended_at=NOW - MINUTE), an_entry())
    deadline = (await process.explain(ENTRY_ID)).waits_for
    assert deadline == NOW - MINUTE + SLA

    assert await process.cycle() == {Outcome.DEFERRED: 1}

    waiting = await process.explain(ENTRY_ID)
    assert (waiting.reason, waiting.taken_from, waiting.waits_for) == (
        Reason.BEFORE_DEADLINE,
        deadline,
        deadline,
    )
    await process.assert_true(waiting)


async def test_recording_that_somebody_has_locked_is_left_until_that_ends(
    uploads: PooledFinalizationHarness, database_url: str
) -> None:
    process = Process(database_url, RECORDING_FINALIZE_RETRY)
    process.storage.answer(a_recording().object_key, found())
    await uploads.put(a_recording(), an_entry())
    async with uploads.other.begin() as work:
        await work.lock_entry(ENTRY_ID)
        explanation = await process.explain(RECORDING_ID)
        assert await process.cycle() == {Outcome.SKIPPED: 1}

    assert (explanation.reason, explanation.next_step) == (Reason.LOCKED, NextStep.RECONCILE)
    await process.assert_true(await process.explain(RECORDING_ID))
