"""What a step writes, and what keeps it from being written."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from attrs import evolve
from messenger_jobs.application.ports.errors import DataRejected
from messenger_jobs.application.ports.finalization import FinalizationChange
from messenger_jobs.domain.call_recording import FailureReason, RecordingStatus
from messenger_jobs.domain.errors import AttemptError
from messenger_jobs.domain.evidence import Empty, Missing, Unreachable
from messenger_jobs.domain.finalization import Adopt, Republish, TimeOut
from messenger_jobs.domain.recording_finalize import FinalizeStatus

from tests.contract.finalization_harness import (
    AS_OF,
    LATER,
    FinalizationContract,
    FinalizationHarness,
    Stored,
    a_new_pair,
    change_of,
    verdict_on,
)
from tests.support.recordings import ENTRY_ID, MEDIA, RECORDING_ID, a_recording, an_entry, seen

TERMINAL = [RecordingStatus.AVAILABLE, RecordingStatus.FAILED]
IN_PROGRESS = [RecordingStatus.RECORDING, RecordingStatus.UPLOADING]
DELAY = timedelta(minutes=1)


def adopting() -> FinalizationChange:
    return change_of(verdict_on(seen(a_recording())))


class Writing(FinalizationContract):
    """All or nothing, guarded by what was seen."""

    @pytest.mark.parametrize("status", IN_PROGRESS)
    async def test_adopted_file_is_written_whole(
        self, harness: FinalizationHarness, status: RecordingStatus
    ) -> None:
        recording = a_recording(status=status)
        await harness.put(recording, an_entry())
        verdict = verdict_on(seen(recording))
        assert isinstance(verdict, Adopt)
        change = change_of(verdict)
        assert change.message is not None
        assert change.notice is not None
        assert await harness.store.write(change)
        assert await harness.stored() == Stored(
            recordings=[verdict.recording],
            entries=[verdict.entry],
            messages=[change.message],
            notices=[change.notice],
        )

    @pytest.mark.parametrize("evidence", [Missing(), Empty()])
    async def test_loss_is_written_whole_and_told_to_clients_only(
        self, harness: FinalizationHarness, evidence: Missing | Empty
    ) -> None:
        await harness.put(a_recording(), an_entry())
        verdict = verdict_on(seen(a_recording()), evidence)
        assert isinstance(verdict, TimeOut)
        change = change_of(verdict)
        assert change.notice is not None
        assert await harness.store.write(change)
        assert await harness.stored() == Stored(
            recordings=[verdict.recording], entries=[verdict.entry], messages=[], notices=[change.notice]
        )

    async def test_steps_of_the_entry_alone_leave_the_recording_as_it_is(
        self, harness: FinalizationHarness
    ) -> None:
        entry = an_entry()
        await harness.put(a_recording(), entry)
        error = AttemptError("Storage", "TIMEOUT")
        for step in (
            entry.deferred(until=LATER, now=LATER),
            (claimed := entry.deferred(until=LATER, now=LATER).claimed(now=LATER, delay=DELAY)),
            claimed.released(next_attempt_at=AS_OF, now=LATER),
            (again := claimed.released(next_attempt_at=AS_OF, now=LATER).claimed(now=LATER, delay=DELAY)),
            again.quarantined(error, now=LATER),
            again.quarantined(error, now=LATER).requeued(now=LATER),
        ):
            assert await harness.store.write(FinalizationChange(entry=step))
            assert (await harness.stored()).entries == [step]
        assert (await harness.stored()).recordings == [a_recording()]

    async def test_nothing_to_write_is_written(self, harness: FinalizationHarness) -> None:
        assert await harness.store.write(FinalizationChange())
        assert await harness.stored() == Stored(recordings=[], entries=[], messages=[], notices=[])

    @pytest.mark.parametrize("part", ["entry", "recording"])
    @pytest.mark.parametrize("by", [-1, 1])
    async def test_version_that_moved_keeps_everything_from_being_written(
        self, harness: FinalizationHarness, part: str, by: int
    ) -> None:
        recording, entry = a_recording(), an_entry()
        change = adopting()
        if part == "entry":
            entry = evolve(entry, version=entry.version + by)
        else:
            recording = evolve(recording, version=recording.version + by)
        await harness.put(recording, entry)
        before = await harness.stored()
        assert not await harness.store.write(change)
        assert await harness.stored() == before

    @pytest.mark.parametrize("missing", ["entry", "recording"])
    async def test_row_that_is_gone_keeps_everything_from_being_written(
        self, harness: FinalizationHarness, missing: str
    ) -> None:
        await harness.put(a_recording() if missing == "entry" else an_entry())
        before = await harness.stored()
        assert not await harness.store.write(adopting())
        assert await harness.stored() == before

    @pytest.mark.parametrize("status", [*TERMINAL, RecordingStatus.PENDING])
    async def test_recording_is_finished_once_whatever_its_version(
        self, harness: FinalizationHarness, status: RecordingStatus
    ) -> None:
        await harness.put(a_recording(status=status), an_entry())
        before = await harness.stored()
        for evidence in (None, Missing()):
            assert not await harness.store.write(change_of(verdict_on(seen(a_recording()), evidence)))
        assert await harness.stored() == before

    async def test_done_is_never_left_whatever_its_version(self, harness: FinalizationHarness) -> None:
        await harness.put(a_recording(), an_entry(status=FinalizeStatus.DONE))
        before = await harness.stored()
        unreachable = Unreachable(code="TIMEOUT", connection_failed=False)
        for change in (
            adopting(),
            change_of(verdict_on(seen(a_recording()), unreachable)),
            FinalizationChange(entry=an_entry().claimed(now=LATER, delay=DELAY)),
            FinalizationChange(entry=an_entry().requeued(now=LATER)),
        ):
            assert not await harness.store.write(change)
        assert await harness.stored() == before

    async def test_what_a_recorder_stored_ahead_is_kept_when_the_recording_is_lost(
        self, harness: FinalizationHarness
    ) -> None:
        recording = a_recording(media=MEDIA)
        await harness.put(recording, an_entry())
        assert await harness.store.write(change_of(verdict_on(seen(a_recording()), Missing())))
        stored = (await harness.stored()).recording(RECORDING_ID)
        assert (stored.status, stored.media) == (RecordingStatus.FAILED, MEDIA)

    @pytest.mark.parametrize("held", ["entry", "recording"])
    async def test_locked_row_is_skipped_without_waiting(
        self, harness: FinalizationHarness, held: str
    ) -> None:
        await harness.put(a_recording(), an_entry())
        before = await harness.stored()
        async with harness.other.begin() as holder:
            if held == "entry":
                assert await holder.lock_entry(ENTRY_ID) is not None
            else:
                assert await holder.lock(RECORDING_ID) is not None
            assert not await harness.store.write(adopting())
        assert await harness.stored() == before
        assert await harness.store.write(adopting())

    async def test_event_is_stored_once_and_told_to_clients_once(self, harness: FinalizationHarness) -> None:
        available = a_recording(status=RecordingStatus.AVAILABLE)
        await harness.put(available, an_entry())
        first, second = (change_of(verdict_on(seen(available))) for _ in range(2))
        assert await harness.store.write(evolve(first, entry=None))
        assert await harness.store.write(second)
        stored = await harness.stored()
        assert (stored.messages, stored.notices) == ([first.message], [first.notice])
        assert stored.entry(ENTRY_ID).status is FinalizeStatus.DONE

    async def test_concurrent_writers_of_one_event_store_it_once(self, harness: FinalizationHarness) -> None:
        available = a_recording(status=RecordingStatus.AVAILABLE)
        await harness.put(available, an_entry())
        verdict = verdict_on(seen(available))
        assert isinstance(verdict, Republish)
        first, second = change_of(verdict), change_of(verdict)
        async with harness.other.begin() as work:
            assert await work.write(evolve(first, entry=None))
            writing = asyncio.create_task(harness.store.write(second))
            await harness.until_blocked()
            await work.commit()
        assert await writing
        stored = await harness.stored()
        assert (stored.messages, stored.notices) == ([first.message], [first.notice])

    async def test_two_processes_on_the_same_reading_write_once(self, harness: FinalizationHarness) -> None:
        pairs = [a_new_pair() for _ in range(10)]
        await harness.put(*(thing for pair in pairs for thing in pair))
        changes = [change_of(verdict_on(seen(*pair))) for pair in pairs for _ in range(2)]
        stores = [harness.store, harness.other] * len(pairs)
        written = await asyncio.gather(
            *(store.write(change) for store, change in zip(stores, changes, strict=True))
        )
        stored = await harness.stored()
        assert sum(written) == len(pairs)
        assert len(stored.messages) == len(stored.notices) == len(pairs)

    @pytest.mark.parametrize(
        ("changes", "sqlstate"),
        [
            ({"failure_reason": "r" * 65}, "22001"),
            ({"media": evolve(MEDIA, duration_seconds=2**31)}, "22003"),
            ({"media": evolve(MEDIA, size_bytes=2**63)}, "22003"),
            ({"status": RecordingStatus.FAILED, "failure_reason": None}, "23514"),
        ],
        ids=str,
    )
    async def test_values_that_the_database_refuses_are_rejected_whole(
        self, harness: FinalizationHarness, changes: dict[str, Any], sqlstate: str
    ) -> None:
        await harness.put(a_recording(), an_entry())
        before = await harness.stored()
        change = adopting()
        assert change.recording is not None
        with pytest.raises(DataRejected) as rejection:
            await harness.store.write(evolve(change, recording=evolve(change.recording, **changes)))
        assert rejection.value.code == sqlstate
        assert await harness.stored() == before
        await harness.assert_nothing_left()

    async def test_repeated_ids_of_messages_and_notices_are_rejected(
        self, harness: FinalizationHarness
    ) -> None:
        pairs = a_new_pair(), a_new_pair()
        await harness.put(*pairs[0], *pairs[1])
        first, second = (change_of(verdict_on(seen(*pair))) for pair in pairs)
        assert await harness.store.write(first)
        assert first.notice is not None
        assert first.message is not None
        for repeated in (
            evolve(second, notice=first.notice),
            evolve(second, message=evolve(first.message, dedupe_key="another")),
        ):
            with pytest.raises(DataRejected) as rejection:
                await harness.store.write(repeated)
            assert rejection.value.code == "23505"
        assert len((await harness.stored()).messages) == 1

    async def test_longest_values_are_stored(self, harness: FinalizationHarness) -> None:
        await harness.put(a_recording(), an_entry())
        media = evolve(MEDIA, size_bytes=2**63 - 1, duration_seconds=2**31 - 1)
        recording, _ = a_recording().became_available(media, now=LATER)
        error = AttemptError("C" * 256, "D" * 255)
        entry = an_entry().quarantined(error, now=LATER)
        assert await harness.store.write(FinalizationChange(entry=entry, recording=recording))
        stored = await harness.stored()
        assert (stored.recordings, stored.entries) == ([recording], [entry])

    async def test_reason_of_a_loss_is_stored(self, harness: FinalizationHarness) -> None:
        await harness.put(a_recording(), an_entry())
        lost, _ = a_recording().was_lost(FailureReason.TIMEOUT, now=LATER)
        assert await harness.store.write(FinalizationChange(recording=lost))
        stored = await harness.stored()
        assert stored.recordings == [lost]
        assert stored.entries == [an_entry()]
