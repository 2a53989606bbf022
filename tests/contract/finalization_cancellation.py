"""Cancellation at every single await: all or nothing, and nothing left behind."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, get_args

import pytest
from messenger_jobs.application.finalize_uploaded_recording import FinalizeUploadedRecording
from messenger_jobs.application.open_finalization import OpenFinalization
from messenger_jobs.application.ports.finalization import FinalizationStore
from messenger_jobs.domain.call_recording import CallRecording, RecordingStatus
from messenger_jobs.domain.finalization import FinalizeSnapshot
from messenger_jobs.domain.recording_finalize import FinalizeStatus

from tests.contract.finalization_harness import (
    AS_OF,
    FinalizationContract,
    FinalizationHarness,
    Stored,
    a_new_pair,
    announcer,
    change_of,
    new_id,
    verdict_on,
)
from tests.contract.provisioning_cancellation import at_every_step
from tests.support.builders import some_id
from tests.support.interruption import Moment, interrupt
from tests.support.recordings import MEDIA, a_recording, seen

Work = Callable[[FinalizationStore, FinalizeSnapshot], Coroutine[Any, Any, object]]


async def read_everything(store: FinalizationStore, before: FinalizeSnapshot) -> None:
    await store.candidates(as_of=AS_OF, after=None, limit=100)
    await store.snapshot(before.entry.id)
    await store.backlog(as_of=AS_OF)
    await store.quarantined_ids()


async def write_in_one_statement(store: FinalizationStore, before: FinalizeSnapshot) -> None:
    await store.write(change_of(verdict_on(before)))


async def ingest(store: FinalizationStore, before: FinalizeSnapshot) -> None:
    use_case = FinalizeUploadedRecording(store=store, announcer=announcer, clock=announcer.clock)
    await use_case(
        before.entry.recording_id,
        file_id=MEDIA.file_id,
        size_bytes=MEDIA.size_bytes,
        duration_seconds=MEDIA.duration_seconds,
        format=MEDIA.format,
        correlation_id=some_id(77),
    )


async def roll_back(store: FinalizationStore, before: FinalizeSnapshot) -> None:
    async with store.begin() as work:
        await work.lock(before.entry.recording_id)
        await work.write(change_of(verdict_on(before)))


def untouched(stored: Stored, before: FinalizeSnapshot) -> bool:
    return (
        stored.entry(before.entry.id) == before.entry
        and stored.recording(before.entry.recording_id) == before.recording
        and stored.messages_about(before.entry.recording_id) == []
        and stored.notices_about(before.entry.recording_id) == []
    )


def finished(stored: Stored, before: FinalizeSnapshot) -> bool:
    id = before.entry.recording_id
    return (
        stored.entry(before.entry.id).status is FinalizeStatus.DONE
        and stored.recording(id).status is RecordingStatus.AVAILABLE
        and len(stored.messages_about(id)) == len(stored.notices_about(id)) == 1
    )


def nothing_may_happen(stored: Stored, before: FinalizeSnapshot) -> bool:
    del stored, before
    return False


class Cancellation(FinalizationContract):
    """Whatever is cancelled, wherever it waits."""

    @pytest.mark.parametrize("moment", get_args(Moment))
    @pytest.mark.parametrize(
        ("work", "done"),
        [
            (read_everything, nothing_may_happen),
            (write_in_one_statement, finished),
            (ingest, finished),
            (roll_back, nothing_may_happen),
        ],
        ids=lambda function: function.__name__,
    )
    async def test_cancelled_anywhere_it_is_done_whole_or_not_at_all_and_leaves_nothing(
        self,
        harness: FinalizationHarness,
        work: Work,
        done: Callable[[Stored, FinalizeSnapshot], bool],
        moment: Moment,
    ) -> None:
        async def cancelled_at(step: int) -> bool:
            before = seen(*a_new_pair())
            assert before.recording is not None
            await harness.put(before.recording, before.entry)
            reached = await interrupt(work(harness.store, before), at=step, moment=moment)
            await harness.assert_nothing_left()
            stored = await harness.stored()
            assert untouched(stored, before) or done(stored, before), f"cancelled at step {step}"
            return reached

        assert await at_every_step(cancelled_at) >= 1

    @pytest.mark.parametrize("moment", get_args(Moment))
    async def test_opening_cancelled_anywhere_is_done_or_not_and_leaves_nothing(
        self, harness: FinalizationHarness, moment: Moment
    ) -> None:
        async def cancelled_at(step: int) -> bool:
            recording: CallRecording = a_recording(id=new_id())
            await harness.put(recording)
            opening = OpenFinalization(store=harness.store, clock=announcer.clock, new_id=new_id)
            reached = await interrupt(opening(recording.id), at=step, moment=moment)
            await harness.assert_nothing_left()
            entries = (await harness.stored()).entries
            assert len([entry for entry in entries if entry.recording_id == recording.id]) <= 1
            return reached

        assert await at_every_step(cancelled_at) >= 1
