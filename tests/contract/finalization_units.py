"""Units of work against each other: locks, isolation, opening, the ingest callback against the job."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from itertools import permutations

import pytest
from attrs import evolve
from messenger_jobs.application.finalize_uploaded_recording import FinalizeUploadedRecording, UploadResult
from messenger_jobs.application.ports.errors import DataRejected, RowRolledBack
from messenger_jobs.application.ports.finalization import FinalizationChange, FinalizationStore
from messenger_jobs.domain.call_recording import RecordingStatus
from messenger_jobs.domain.evidence import Missing
from messenger_jobs.domain.recording_finalize import FinalizeStatus

from tests.contract.finalization_harness import (
    LATER,
    FinalizationContract,
    FinalizationHarness,
    Stored,
    a_new_pair,
    announcer,
    change_of,
    new_id,
    verdict_on,
)
from tests.support.builders import some_id
from tests.support.recordings import ENTRY_ID, MEDIA, RECORDING_ID, a_recording, an_entry, seen


def ingest(store: FinalizationStore) -> FinalizeUploadedRecording:
    return FinalizeUploadedRecording(store=store, announcer=announcer, clock=announcer.clock)


async def ingested(store: FinalizationStore) -> UploadResult:
    return await ingest(store)(
        RECORDING_ID,
        file_id=MEDIA.file_id,
        size_bytes=MEDIA.size_bytes,
        duration_seconds=MEDIA.duration_seconds,
        format=MEDIA.format,
        correlation_id=some_id(78),
    )


def assert_finished_once(stored: Stored) -> None:
    recording = stored.recording(RECORDING_ID)
    assert recording.terminal
    assert stored.entry(ENTRY_ID).status is FinalizeStatus.DONE
    assert len(stored.notices) == 1
    assert len(stored.messages) == (recording.status is RecordingStatus.AVAILABLE)


class Units(FinalizationContract):
    """What two open transactions see of each other, and what stays of one that fails."""

    async def test_recording_and_its_entry_are_locked_as_they_are(self, harness: FinalizationHarness) -> None:
        recording, entry = a_recording(status=RecordingStatus.AVAILABLE), an_entry(attempts=2)
        await harness.put(recording, entry)
        async with harness.store.begin() as work:
            assert await work.lock(RECORDING_ID) == recording
            assert await work.entry(RECORDING_ID) == entry
            assert await work.lock_entry(ENTRY_ID) == entry
            assert await work.lock(ENTRY_ID) is None
            assert await work.entry(ENTRY_ID) is None
            assert await work.lock_entry(RECORDING_ID) is None

    @pytest.mark.parametrize("way", ["lock", "entry", "lock_entry"])
    async def test_lock_waits_and_sees_what_its_holder_committed(
        self, harness: FinalizationHarness, way: str
    ) -> None:
        await harness.put(a_recording(), an_entry())
        id = ENTRY_ID if way == "lock_entry" else RECORDING_ID
        async with harness.store.begin() as waiting:
            async with harness.writing(a_recording(version=9), an_entry(version=9)):
                lock = asyncio.create_task(getattr(waiting, way)(id))
                await harness.until_blocked()
            locked = await lock
        assert locked.version == 9

    async def test_too_long_a_wait_rolls_back_the_one_who_waits(self, harness: FinalizationHarness) -> None:
        await harness.put(a_recording())
        async with harness.store.begin() as holder:
            assert await holder.lock(RECORDING_ID) is not None
            async with harness.other.begin() as waiting:
                lock = asyncio.create_task(waiting.lock(RECORDING_ID))
                await harness.until_blocked()
                await harness.pass_lock_timeout()
                with pytest.raises(RowRolledBack) as failure:
                    await lock
                assert failure.value.code == "55P03"
        await harness.assert_nothing_left()

    async def test_own_locks_do_not_keep_from_writing(self, harness: FinalizationHarness) -> None:
        await harness.put(a_recording(), an_entry())
        async with harness.store.begin() as work:
            recording, entry = await work.lock(RECORDING_ID), await work.entry(RECORDING_ID)
            assert await work.write(change_of(verdict_on(seen(recording, entry))))
            await work.commit()
        assert_finished_once(await harness.stored())

    async def test_unit_sees_its_own_writes_and_nobody_else_does(self, harness: FinalizationHarness) -> None:
        await harness.put(a_recording(), an_entry())
        change = change_of(verdict_on(seen(a_recording())))
        before = await harness.stored()
        async with harness.store.begin() as work:
            assert await work.write(change)
            assert await work.lock(RECORDING_ID) == change.recording
            assert await work.entry(RECORDING_ID) == change.entry
            assert not await work.write(change)
            assert await harness.stored() == before
            assert await harness.other.snapshot(ENTRY_ID) == seen(a_recording())
        assert await harness.stored() == before
        await harness.assert_nothing_left()

    async def test_change_that_does_not_fit_leaves_the_unit_usable(
        self, harness: FinalizationHarness
    ) -> None:
        recording, entry = a_new_pair()
        await harness.put(a_recording(version=99), an_entry(), recording, entry)
        async with harness.store.begin() as work:
            assert not await work.write(change_of(verdict_on(seen(a_recording()))))
            assert await work.write(change_of(verdict_on(seen(recording, entry))))
            await work.commit()
        stored = await harness.stored()
        assert stored.entry(ENTRY_ID) == an_entry()
        assert len(stored.messages) == len(stored.notices) == 1

    async def test_savepoint_undoes_just_its_part(self, harness: FinalizationHarness) -> None:
        recording, entry = a_new_pair()
        await harness.put(a_recording(), an_entry(), recording, entry)
        async with harness.store.begin() as work:
            assert await work.write(change_of(verdict_on(seen(recording, entry), Missing())))
            with suppress(LookupError):
                async with work.savepoint():
                    assert await work.write(change_of(verdict_on(seen(a_recording()))))
                    raise LookupError
            await work.commit()
        stored = await harness.stored()
        assert stored.recording(RECORDING_ID) == a_recording()
        assert stored.entry(entry.id).status is FinalizeStatus.DONE
        assert stored.messages == []

    async def test_unit_goes_on_after_a_refused_savepoint(self, harness: FinalizationHarness) -> None:
        await harness.put(a_recording(), an_entry())
        change = change_of(verdict_on(seen(a_recording())))
        assert change.recording is not None
        refused = evolve(change, recording=evolve(change.recording, failure_reason="r" * 65))
        async with harness.store.begin() as work:
            with suppress(DataRejected):
                async with work.savepoint():
                    await work.write(refused)
            assert await work.write(change)
            await work.commit()
        assert_finished_once(await harness.stored())

    # Opening

    async def test_entry_is_opened_once(self, harness: FinalizationHarness) -> None:
        await harness.put(a_recording())
        for expected in (True, False):
            async with harness.store.begin() as work:
                assert await work.open(an_entry(id=new_id())) is expected
                await work.commit()
        assert len((await harness.stored()).entries) == 1

    async def test_opened_entry_is_as_it_was_given(self, harness: FinalizationHarness) -> None:
        entry = an_entry(attempts=1, last_error="Storage:TIMEOUT", created_at=LATER)
        async with harness.store.begin() as work:
            assert await work.open(entry)
            await work.commit()
        assert (await harness.stored()).entries == [entry]

    async def test_entry_that_is_done_is_not_opened_again(self, harness: FinalizationHarness) -> None:
        done = an_entry(status=FinalizeStatus.DONE)
        await harness.put(a_recording(), done)
        async with harness.store.begin() as work:
            assert not await work.open(an_entry(id=new_id()))
            await work.commit()
        assert (await harness.stored()).entries == [done]

    async def test_concurrent_opener_is_waited_for(self, harness: FinalizationHarness) -> None:
        async def opened() -> bool:
            async with harness.other.begin() as work:
                result = await work.open(an_entry(id=new_id()))
                await work.commit()
                return result

        async with harness.store.begin() as work:
            assert await work.open(an_entry())
            second = asyncio.create_task(opened())
            await harness.until_blocked()
            await work.commit()
        assert not await second
        assert (await harness.stored()).entries == [an_entry()]

    async def test_opener_takes_over_from_one_who_rolls_back(self, harness: FinalizationHarness) -> None:
        entry = an_entry(id=new_id())

        async def opened() -> bool:
            async with harness.other.begin() as work:
                result = await work.open(entry)
                await work.commit()
                return result

        async with harness.store.begin() as work:
            assert await work.open(an_entry())
            second = asyncio.create_task(opened())
            await harness.until_blocked()
        assert await second
        assert (await harness.stored()).entries == [entry]

    async def test_opener_waits_for_whoever_changes_the_entry(self, harness: FinalizationHarness) -> None:
        done = an_entry().done(now=LATER)

        async def opened() -> bool:
            async with harness.other.begin() as work:
                return await work.open(an_entry(id=new_id()))

        await harness.put(an_entry())
        async with harness.store.begin() as work:
            assert await work.write(FinalizationChange(entry=done))
            opening = asyncio.create_task(opened())
            await harness.until_blocked()
            await work.commit()
        assert not await opening
        assert (await harness.stored()).entries == [done]

    async def test_opener_does_not_wait_for_whoever_only_locks_the_entry(
        self, harness: FinalizationHarness
    ) -> None:
        await harness.put(an_entry())
        async with harness.store.begin() as holder, harness.other.begin() as work:
            assert await holder.lock_entry(ENTRY_ID) is not None
            assert not await work.open(an_entry(id=new_id()))

    # The ingest callback against the job

    async def test_ingest_waits_for_a_writer_and_sees_what_it_wrote(
        self, harness: FinalizationHarness
    ) -> None:
        await harness.put(a_recording(), an_entry())
        async with harness.store.begin() as settling:
            assert await settling.write(change_of(verdict_on(seen(a_recording()))))
            callback = asyncio.create_task(ingested(harness.other))
            await harness.until_blocked()
            await settling.commit()
        assert await callback is UploadResult.ALREADY_AVAILABLE
        assert_finished_once(await harness.stored())

    async def test_ingest_takes_over_from_a_writer_that_rolls_back(
        self, harness: FinalizationHarness
    ) -> None:
        await harness.put(a_recording(), an_entry())
        async with AsyncExitStack() as transaction:
            settling = await transaction.enter_async_context(harness.store.begin())
            assert await settling.write(change_of(verdict_on(seen(a_recording()))))
            callback = asyncio.create_task(ingested(harness.other))
            await harness.until_blocked()
        assert await callback is UploadResult.AVAILABLE
        assert_finished_once(await harness.stored())

    async def test_settling_skips_what_ingest_has_in_hand_and_loses(
        self, harness: FinalizationHarness
    ) -> None:
        await harness.put(a_recording(), an_entry())
        change = change_of(verdict_on(seen(a_recording()), Missing()))
        async with harness.other.begin() as work:
            assert await work.lock(RECORDING_ID) is not None
            assert not await harness.store.write(change)
        assert await ingested(harness.other) is UploadResult.AVAILABLE
        assert not await harness.store.write(change)
        assert_finished_once(await harness.stored())

    @pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
    @pytest.mark.parametrize("lost", [False, True], ids=["file there", "file missing"])
    async def test_ingest_job_and_another_job_finish_a_recording_once(
        self, harness: FinalizationHarness, order: tuple[int, ...], lost: bool
    ) -> None:
        await harness.put(a_recording(), an_entry())
        evidence = Missing() if lost else None
        actors: list[Callable[[], Awaitable[object]]] = [
            lambda: ingested(harness.other),
            lambda: harness.store.write(change_of(verdict_on(seen(a_recording()), evidence))),
            lambda: harness.other.write(change_of(verdict_on(seen(a_recording())))),
        ]
        await asyncio.gather(*(actors[index]() for index in order))
        assert_finished_once(await harness.stored())
        await harness.assert_nothing_left()

    async def test_requeue_against_a_write_of_the_same_version_lets_one_through(
        self, harness: FinalizationHarness
    ) -> None:
        quarantined = an_entry(status=FinalizeStatus.QUARANTINED)
        await harness.put(a_recording(), quarantined)
        requeue = FinalizationChange(entry=quarantined.requeued(now=LATER))
        done = FinalizationChange(entry=quarantined.done(now=LATER))
        written = await asyncio.gather(harness.store.write(requeue), harness.other.write(done))
        assert sorted(written) == [False, True]
