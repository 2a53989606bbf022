from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from attrs import evolve
from messenger_jobs.adapters.memory.finalization import MemoryFinalizationStore
from messenger_jobs.adapters.memory.recording_storage import LOOK
from messenger_jobs.adapters.memory.switch import Phase
from messenger_jobs.application.cycle_report import AttemptReport, CycleEnd, Outcome
from messenger_jobs.application.finalization_report import report
from messenger_jobs.application.finalize_uploaded_recording import UploadResult
from messenger_jobs.application.ports.errors import (
    DatabaseUnavailable,
    DataRejected,
    Misconfigured,
    RowRolledBack,
)
from messenger_jobs.application.ports.finalization import FinalizationChange
from messenger_jobs.application.run_cycle import OUTAGE_THRESHOLD
from messenger_jobs.application.storage_guard import CONNECTION_FAILURE_THRESHOLD
from messenger_jobs.domain.call_recording import CallRecording, RecordingStatus, SessionKind
from messenger_jobs.domain.evidence import (
    Empty,
    Evidence,
    Missing,
    StorageMisconfigured,
    Unreachable,
    Unsupported,
)
from messenger_jobs.domain.finalization import Claim
from messenger_jobs.domain.recording_finalize import FinalizeStatus, RecordingFinalize
from messenger_jobs.domain.retry_schedule import RetrySchedule

from tests.support.builders import NOW, some_id
from tests.support.recordings import (
    ENDED_AT,
    ENTRY_ID,
    FILE_ID,
    FINALIZATION_RULES,
    MEDIA,
    RECORDING_ID,
    SESSION_ID,
    SLA,
    a_pair,
    a_recording,
    an_entry,
    found,
    seen,
)
from tests.unit.application.uploads import RUN_ID, Uploads

GONE = DatabaseUnavailable("CONNECTION_LOST", "the connection to the database failed")
DEADLOCK = RowRolledBack("40P01", "deadlock detected")
FORBIDDEN = Misconfigured("42501", "the database account lacks a permission")
REFUSED = Unreachable(code="CONNECTION_REFUSED", connection_failed=True)
SLOW = Unreachable(code="TIMED_OUT", connection_failed=False)
NO_BUCKET = StorageMisconfigured(code="NO_SUCH_BUCKET")
SUBJECT = {"recording_id": RECORDING_ID, "session_id": SESSION_ID}
KEY = a_recording().object_key


@pytest.fixture
def uploads() -> Uploads:
    return Uploads()


def a_lost_callback(uploads: Uploads, evidence: Evidence | None = None) -> None:
    """A recording whose session ended long ago, and what storage has of it."""
    uploads.put(a_recording(), an_entry())
    uploads.storage.answer(KEY, evidence or found())


def many(uploads: Uploads, number: int, *, first: int = 0) -> None:
    """Recordings to be finished, whose files are in storage."""
    for n in range(first, number):
        recording, entry = a_pair(n)
        uploads.put(recording, entry)
        uploads.storage.answer(recording.object_key, found())


class RoomForClaimsOnly(MemoryFinalizationStore):
    """On a disk with room for a row that changes, and none for an event."""

    async def write(self, change: FinalizationChange) -> bool:
        if change.message is not None:
            await asyncio.sleep(0)
            raise GONE
        return await super().write(change)


class TestPhases:
    async def test_lost_callback_is_made_up_for(self, uploads: Uploads) -> None:
        a_lost_callback(uploads)
        uploads.clock.advance(timedelta(seconds=7))
        report = await uploads.attempt()
        assert report == AttemptReport(
            outcome=Outcome.RECONCILED, subject={**SUBJECT, "file_id": FILE_ID}, attempts=1
        )
        assert uploads.recording.status is RecordingStatus.AVAILABLE
        assert uploads.recording.available_at == NOW + timedelta(seconds=7)
        assert uploads.entry.status is FinalizeStatus.DONE
        assert uploads.told == ["RecordingAvailable"]
        (message,) = uploads.messages
        assert message.headers["correlation-id"] == str(RUN_ID)
        assert message.dedupe_key == f"call-recording-available:{RECORDING_ID}"
        assert uploads.notices[0].reference_id == RECORDING_ID

    async def test_look_is_made_between_two_statements(self, uploads: Uploads) -> None:
        a_lost_callback(uploads)
        await uploads.attempt()
        assert [step.operation for step in uploads.switch.steps if step.phase is Phase.SENT] == [
            "candidates",
            "write",
            "write",
        ]

    @pytest.mark.parametrize("evidence", [Missing(), Empty()])
    async def test_recording_without_a_file_is_lost(self, uploads: Uploads, evidence: Evidence) -> None:
        a_lost_callback(uploads, evidence)
        report = await uploads.attempt()
        code = "Storage:NOT_FOUND" if isinstance(evidence, Missing) else "Storage:EMPTY_OBJECT"
        assert report == AttemptReport(outcome=Outcome.FAILED, subject=SUBJECT, attempts=1, error_code=code)
        assert (uploads.recording.status, uploads.recording.failure_reason) == (
            RecordingStatus.FAILED,
            "Timeout",
        )
        assert uploads.entry.status is FinalizeStatus.DONE
        assert (uploads.told, uploads.messages) == (["RecordingFailed"], [])

    async def test_available_recording_that_nobody_was_told_of_is_announced(self, uploads: Uploads) -> None:
        uploads.put(a_recording(status=RecordingStatus.AVAILABLE), an_entry())
        report = await uploads.attempt()
        assert report == AttemptReport(outcome=Outcome.REPUBLISHED, subject=SUBJECT, attempts=0)
        assert uploads.told == ["RecordingAvailable"]
        (message,) = uploads.messages
        assert message.headers["correlation-id"] == str(RUN_ID)
        assert uploads.recording == a_recording(status=RecordingStatus.AVAILABLE)
        assert uploads.storage.looks == []

    @pytest.mark.parametrize("status", [RecordingStatus.AVAILABLE, RecordingStatus.FAILED])
    async def test_callback_that_won_is_only_closed(self, uploads: Uploads, status: RecordingStatus) -> None:
        if status is RecordingStatus.AVAILABLE:
            uploads.put(a_recording(), an_entry())
            assert await uploads.ingest() is UploadResult.AVAILABLE
        else:
            uploads.put(a_recording(status=status))
        uploads.put(an_entry(version=99))
        before = uploads.recording, uploads.messages, uploads.notices
        assert (await uploads.attempt()).outcome is Outcome.CLOSED
        assert (uploads.recording, uploads.messages, uploads.notices) == before
        assert uploads.entry.status is FinalizeStatus.DONE

    async def test_recording_that_still_has_time_is_deferred_and_then_made_up_for(
        self, uploads: Uploads
    ) -> None:
        a_lost_callback(uploads)
        uploads.put(a_recording(session_ended_at=NOW - timedelta(minutes=10)))
        report = await uploads.attempt()
        assert (report.outcome, report.attempts, report.error_code) == (Outcome.DEFERRED, 0, None)
        uploads.clock.advance(SLA - timedelta(minutes=10) - timedelta(microseconds=1))
        assert await uploads.read() == []
        uploads.clock.advance(timedelta(microseconds=1))
        assert (await uploads.attempt()).outcome is Outcome.RECONCILED

    async def test_waiting_costs_no_attempt_however_long_it_lasts(self, uploads: Uploads) -> None:
        uploads.put(a_recording(session_ended_at=None, ended_at=None), an_entry())
        for _ in range(3 * FINALIZATION_RULES.max_attempts):
            assert (await uploads.attempt()).outcome is Outcome.DEFERRED
            uploads.clock.advance(FINALIZATION_RULES.poll)
        assert uploads.entry.schedule.attempts == 0

    async def test_missing_recording_ends_in_quarantine(self, uploads: Uploads) -> None:
        uploads.put(an_entry())
        outcomes = []
        for _ in range(FINALIZATION_RULES.max_attempts):
            outcomes.append((await uploads.attempt()).outcome)
            uploads.clock.advance(timedelta(minutes=15))
        assert outcomes == [Outcome.RETRIED] * 7 + [Outcome.QUARANTINED]
        assert uploads.entry.schedule.last_error == "FinalizeGuard:RECORDING_MISSING"
        assert uploads.storage.looks == []

    async def test_job_bears_its_name(self, uploads: Uploads) -> None:
        assert uploads.job.name == "recording-finalize-retry"


class TestStorageErrors:
    async def test_no_answer_is_asked_for_again_after_a_growing_delay(self, uploads: Uploads) -> None:
        a_lost_callback(uploads, SLOW)
        report = await uploads.attempt()
        assert (report.outcome, report.attempts, report.error_code) == (
            Outcome.RETRIED,
            1,
            "Storage:TIMED_OUT",
        )
        assert uploads.entry.schedule.next_attempt_at == NOW + timedelta(minutes=1)
        uploads.clock.advance(timedelta(minutes=1))
        await uploads.attempt()
        assert uploads.entry.schedule.next_attempt_at == NOW + timedelta(minutes=3)
        assert uploads.recording == a_recording()

    async def test_no_answer_for_too_long_is_quarantined_and_never_lost(self, uploads: Uploads) -> None:
        a_lost_callback(uploads, SLOW)
        outcomes = []
        for _ in range(FINALIZATION_RULES.max_attempts):
            outcomes.append((await uploads.attempt()).outcome)
            uploads.clock.advance(timedelta(minutes=15))
        assert outcomes == [Outcome.RETRIED] * 7 + [Outcome.QUARANTINED]
        assert await uploads.read() == []
        assert uploads.recording == a_recording()
        assert (uploads.messages, uploads.notices) == ([], [])

    async def test_quarantined_row_is_finished_after_an_operators_word(self, uploads: Uploads) -> None:
        a_lost_callback(uploads, Unsupported(code="UNKNOWN_CONTENT_TYPE"))
        report = await uploads.attempt()
        assert (report.outcome, report.attempts) == (Outcome.QUARANTINED, 1)
        uploads.clock.advance(timedelta(days=1))
        assert await uploads.read() == []
        uploads.storage.answer(KEY, found())
        assert (await uploads.requeue.rows([RECORDING_ID])).requeued == (RECORDING_ID,)
        assert (await uploads.attempt()).outcome is Outcome.RECONCILED

    async def test_configuration_fault_ends_looking_but_not_the_other_phases(self, uploads: Uploads) -> None:
        many(uploads, 20)
        announced, entry = a_pair(100, status=RecordingStatus.AVAILABLE)
        waiting, later = a_pair(101, session_ended_at=NOW)
        uploads.put(announced, entry, waiting, later)
        uploads.storage.fault = NO_BUCKET
        report = await uploads.run(uploads.job)
        assert report.end is CycleEnd.COMPLETED
        assert report.counts == {
            Outcome.RELEASED: 1,
            Outcome.SKIPPED: 19,
            Outcome.REPUBLISHED: 1,
            Outcome.DEFERRED: 1,
        }
        assert len(uploads.storage.looks) == 1
        (fault,) = uploads.telemetry.configuration_faults
        assert fault.code == "NO_SUCH_BUCKET"
        assert str(fault) == "the storage of recordings must be set up by a person"
        assert set(uploads.telemetry.cycles) == {report.cycle}
        assert all(row.schedule.attempts == 0 for row in uploads.entries)

    async def test_configuration_fault_is_told_once_a_cycle(self, uploads: Uploads) -> None:
        many(uploads, 30)
        uploads.storage.fault = NO_BUCKET
        for cycle in (1, 2):
            report = await uploads.run(uploads.job, lanes=8)
            assert report.counts[Outcome.RELEASED] <= 8
            assert len(uploads.telemetry.configuration_faults) == cycle
        assert all(row.schedule.attempts == 0 for row in uploads.entries)

    async def test_row_that_waited_to_be_looked_for_is_told_what_others_found(self, uploads: Uploads) -> None:
        uploads.looks_at_once = 2
        many(uploads, 9)
        uploads.storage.fault = NO_BUCKET

        async def until_the_others_wait() -> None:
            for _ in range(50):
                await asyncio.sleep(0)

        for _ in range(2):
            uploads.storage_switch.at(LOOK, Phase.SENT, until_the_others_wait)
        report = await uploads.run(uploads.new_job(), lanes=6)
        assert report.counts == {Outcome.RELEASED: 6, Outcome.SKIPPED: 3}
        assert len(uploads.storage.looks) == 2
        assert {told.error_code for told in uploads.telemetry.attempts if told.error_code} == {
            "Storage:NO_SUCH_BUCKET"
        }

    async def test_row_that_waited_to_be_looked_for_when_the_cycle_ends_is_given_back(
        self, uploads: Uploads
    ) -> None:
        uploads.looks_at_once = 2
        many(uploads, 9)

        async def until_the_others_wait() -> None:
            for _ in range(50):
                await asyncio.sleep(0)
            uploads.stop.request()

        for _ in range(2):
            uploads.storage_switch.at(LOOK, Phase.SENT, until_the_others_wait)
        report = await uploads.run(uploads.new_job(), lanes=6)
        assert report.end is CycleEnd.STOPPED
        assert report.counts == {Outcome.RECONCILED: 2, Outcome.RELEASED: 4}
        assert len(uploads.storage.looks) == 2
        assert {told.error_code for told in uploads.telemetry.attempts} == {None}
        waiting = [row.schedule for row in uploads.entries if row.status is FinalizeStatus.PENDING]
        assert waiting == [RetrySchedule(attempts=0, next_attempt_at=NOW)] * 7

    async def test_released_rows_are_due_at_once_when_storage_is_set_up(self, uploads: Uploads) -> None:
        many(uploads, 10)
        uploads.storage.fault = NO_BUCKET
        await uploads.run(uploads.job, lanes=4)
        uploads.storage.fault = None
        assert (await uploads.run(uploads.job, lanes=4)).counts == {Outcome.RECONCILED: 10}


async def test_storage_is_asked_for_as_many_at_once_as_allowed_while_more_rows_are_in_hand(
    uploads: Uploads,
) -> None:
    uploads.looks_at_once = 3
    many(uploads, 20)
    asked, most = 0, 0

    async def linger() -> None:
        nonlocal asked, most
        asked += 1
        most = max(most, asked)
        for _ in range(50):
            await asyncio.sleep(0)
        asked -= 1

    for _ in range(20):
        uploads.storage_switch.at(LOOK, Phase.SENT, linger)
    report = await uploads.run(uploads.new_job(), lanes=6)
    assert report.counts == {Outcome.RECONCILED: 20}
    assert most == 3


class TestOutageOfStorage:
    @pytest.mark.parametrize(("lanes", "looks_at_once"), [(1, 1), (4, 2), (8, 8), (16, 8)])
    async def test_costs_few_calls_and_no_attempt_however_long_it_lasts(
        self, uploads: Uploads, lanes: int, looks_at_once: int
    ) -> None:
        uploads.looks_at_once = looks_at_once
        job = uploads.new_job()
        many(uploads, 1_000)
        last_chance = evolve(a_pair(0)[1], schedule=an_entry(attempts=7).schedule)
        uploads.put(last_chance)
        uploads.storage.fault = REFUSED
        for _ in range(3 * FINALIZATION_RULES.max_attempts):
            uploads.storage.looks.clear()
            report = await uploads.run(job, lanes=lanes)
            assert report.counts.keys() == {Outcome.RELEASED, Outcome.SKIPPED}
            assert len(uploads.storage.looks) <= looks_at_once + CONNECTION_FAILURE_THRESHOLD
            uploads.clock.advance(FINALIZATION_RULES.poll)
        assert {row.status for row in uploads.entries} == {FinalizeStatus.PENDING}
        assert sum(row.schedule.attempts for row in uploads.entries) == 7
        assert {row.status for row in uploads.recordings} == {RecordingStatus.UPLOADING}

        uploads.storage.fault = None
        healed = await uploads.run(job, lanes=lanes)
        assert healed.counts == {Outcome.RECONCILED: 1_000}
        assert len(uploads.messages) == len(uploads.notices) == 1_000

    @pytest.mark.parametrize("lanes", [1, 3, 8])
    async def test_shows_in_as_many_rows_as_it_takes_and_spares_them_all(
        self, uploads: Uploads, lanes: int
    ) -> None:
        many(uploads, CONNECTION_FAILURE_THRESHOLD)
        uploads.storage.fault = REFUSED
        report = await uploads.run(uploads.job, lanes=lanes)
        assert report.counts.keys() <= {Outcome.RELEASED, Outcome.SKIPPED}
        assert all(row.schedule.attempts == 0 for row in uploads.entries)

    async def test_row_that_is_given_back_says_why_and_when(self, uploads: Uploads) -> None:
        many(uploads, CONNECTION_FAILURE_THRESHOLD)
        uploads.storage.fault = REFUSED
        uploads.clock.advance(timedelta(seconds=7))
        await uploads.run(uploads.job)
        (released,) = [row for row in uploads.entries if row.updated_at == NOW + timedelta(seconds=7)]
        assert released.schedule == RetrySchedule(attempts=0, next_attempt_at=NOW)
        (told,) = [told for told in uploads.telemetry.attempts if told.outcome is Outcome.RELEASED]
        assert (told.attempts, told.error_code) == (0, "Storage:CONNECTION_REFUSED")

    async def test_is_waited_for_while_other_lanes_are_asking(self, uploads: Uploads) -> None:
        many(uploads, CONNECTION_FAILURE_THRESHOLD)
        uploads.storage.fault = REFUSED

        async def slowly() -> None:
            for _ in range(50):
                await asyncio.sleep(0)

        uploads.storage_switch.at(LOOK, Phase.SENT, lambda: None)
        for _ in range(CONNECTION_FAILURE_THRESHOLD - 1):
            uploads.storage_switch.at(LOOK, Phase.SENT, slowly)
        report = await uploads.run(uploads.job, lanes=CONNECTION_FAILURE_THRESHOLD)
        assert report.counts == {Outcome.RELEASED: CONNECTION_FAILURE_THRESHOLD}

    async def test_shows_over_several_cycles_when_little_is_due(self, uploads: Uploads) -> None:
        many(uploads, 2)
        uploads.storage.fault = REFUSED
        assert (await uploads.run(uploads.job)).counts == {Outcome.RETRIED: 2}
        many(uploads, 3, first=2)
        for _ in range(3 * FINALIZATION_RULES.max_attempts):
            assert Outcome.RETRIED not in (await uploads.run(uploads.job)).counts
            uploads.clock.advance(FINALIZATION_RULES.poll)
        assert sorted(row.schedule.attempts for row in uploads.entries) == [0, 1, 1]

        uploads.storage.fault = None
        assert (await uploads.run(uploads.job)).counts == {Outcome.RECONCILED: 3}

    async def test_is_not_concluded_from_one_recording(self, uploads: Uploads) -> None:
        a_lost_callback(uploads, REFUSED)
        outcomes = []
        for _ in range(FINALIZATION_RULES.max_attempts):
            outcomes.append((await uploads.attempt()).outcome)
            uploads.clock.advance(timedelta(minutes=15))
        assert outcomes == [Outcome.RETRIED] * 7 + [Outcome.QUARANTINED]

    async def test_is_not_concluded_when_storage_answered_in_between(self, uploads: Uploads) -> None:
        counts = []
        for n in range(5):
            many(uploads, n + 1, first=n)
            uploads.storage.fault = None if n == 2 else REFUSED
            counts.append((await uploads.run(uploads.job)).counts)
        refused = {Outcome.RETRIED: 1}
        assert counts == [refused, refused, {Outcome.RECONCILED: 1}, refused, refused]

    @pytest.mark.parametrize("lanes", [1, 2, 8])
    async def test_server_that_refuses_now_and_then_is_none(self, uploads: Uploads, lanes: int) -> None:
        many(uploads, 20)
        for n in range(0, 20, 2):
            uploads.storage.answer(a_pair(n)[0].object_key, REFUSED)
        report = await uploads.run(uploads.job, lanes=lanes)
        assert report.counts == {Outcome.RETRIED: 10, Outcome.RECONCILED: 10}

    async def test_is_not_looked_for_in_rows_that_need_no_storage(self, uploads: Uploads) -> None:
        many(uploads, 1)
        needing_none: list[dict[str, Any]] = [
            {"session_ended_at": NOW},
            {"status": RecordingStatus.AVAILABLE},
            {"session_ended_at": None},
        ]
        for n, changes in enumerate(needing_none, 1):
            uploads.put(*a_pair(n, **changes))
        uploads.storage.fault = REFUSED
        report = await uploads.run(uploads.job)
        assert report.counts == {Outcome.RETRIED: 1, Outcome.DEFERRED: 2, Outcome.REPUBLISHED: 1}
        assert uploads.storage.looks == [a_pair(0)[0].object_key]

    async def test_is_looked_for_in_rows_behind_only(self, uploads: Uploads) -> None:
        many(uploads, 3)
        uploads.storage.fault = REFUSED
        candidates = await uploads.read()
        report = await uploads.job.attempt(candidates[1], uploads.cycle)
        assert report.outcome is Outcome.RETRIED
        assert uploads.storage.looks == [a_pair(1)[0].object_key, a_pair(2)[0].object_key]

    async def test_is_looked_for_in_one_bounded_reading(self, uploads: Uploads) -> None:
        many(uploads, 1)
        for n in range(1, 101):
            uploads.put(*a_pair(n, session_ended_at=NOW))
        many(uploads, 102, first=101)
        uploads.storage.fault = REFUSED
        candidates = await uploads.job.candidates(as_of=uploads.as_of, after=None, limit=1)
        await uploads.job.attempt(candidates[0], uploads.cycle)
        assert uploads.storage.looks == [a_pair(0)[0].object_key]

    async def test_fault_that_shows_while_others_are_asked_is_told(self, uploads: Uploads) -> None:
        many(uploads, 5)
        uploads.storage.answer(a_pair(0)[0].object_key, REFUSED)
        uploads.storage.answer(a_pair(1)[0].object_key, NO_BUCKET)
        report = await uploads.run(uploads.job)
        assert report.counts == {Outcome.RELEASED: 1, Outcome.SKIPPED: 4}
        assert [error.code for error in uploads.telemetry.configuration_faults] == ["NO_SUCH_BUCKET"]

    async def test_database_that_fails_while_others_are_read_costs_nobody_an_attempt(
        self, uploads: Uploads
    ) -> None:
        many(uploads, 10)
        uploads.storage.fault = REFUSED
        uploads.switch.at("candidates", Phase.SENT, lambda: None)
        uploads.switch.at("candidates", Phase.SENT, GONE)
        report = await uploads.run(uploads.job, lanes=2)
        assert report.counts.keys() == {Outcome.ROLLED_BACK, Outcome.RELEASED, Outcome.SKIPPED}
        assert report.counts[Outcome.ROLLED_BACK] == 1
        assert sum(row.schedule.attempts for row in uploads.entries) == 0

    @pytest.mark.parametrize("step", range(1, 80))
    async def test_cancelled_while_it_is_found_out_nothing_is_left_waiting(
        self, uploads: Uploads, step: int
    ) -> None:
        many(uploads, 2)
        uploads.storage.fault = REFUSED
        others = asyncio.all_tasks()
        task = asyncio.create_task(uploads.run(uploads.job, lanes=4))
        for _ in range(step):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        assert all(row.schedule.attempts <= 1 for row in uploads.entries)
        assert (uploads.database.open_transactions, uploads.server.held) == (0, [])
        assert asyncio.all_tasks() == others

    async def test_rehearsal_asks_no_more_than_the_cycle(self, uploads: Uploads) -> None:
        many(uploads, 50)
        uploads.storage.fault = REFUSED
        reports = [await uploads.job.preview(candidate, uploads.cycle) for candidate in await uploads.read()]
        assert len(uploads.storage.looks) == CONNECTION_FAILURE_THRESHOLD
        assert [report.outcome for report in reports] == [Outcome.RELEASED] + [Outcome.SKIPPED] * 49


class TestSomebodyElseWasFaster:
    @pytest.mark.parametrize(
        ("operation", "phase", "occurrence"),
        [
            ("candidates", Phase.ANSWERED, 1),
            ("write", Phase.SENT, 1),
            ("write", Phase.ANSWERED, 1),
            (LOOK, Phase.SENT, 1),
            (LOOK, Phase.ANSWERED, 1),
            ("write", Phase.SENT, 2),
        ],
    )
    @pytest.mark.parametrize("evidence", [found(), Missing(), SLOW, NO_BUCKET, REFUSED], ids=str)
    async def test_callback_wins_in_every_window(
        self, uploads: Uploads, operation: str, phase: Phase, occurrence: int, evidence: Evidence
    ) -> None:
        a_lost_callback(uploads, evidence)
        switch = uploads.storage_switch if operation == LOOK else uploads.switch

        async def callback() -> None:
            assert await uploads.ingest() is UploadResult.AVAILABLE

        def nothing() -> None:
            pass

        for _ in range(occurrence - 1):
            switch.at(operation, phase, nothing)
        switch.at(operation, phase, callback)
        report = await uploads.attempt()
        assert report == AttemptReport(outcome=Outcome.SKIPPED, subject=SUBJECT)
        assert uploads.recording.status is RecordingStatus.AVAILABLE
        assert uploads.entry.status is FinalizeStatus.DONE
        assert uploads.told == ["RecordingAvailable"]
        assert len(uploads.messages) == 1

    @pytest.mark.parametrize("evidence", [found(), Missing()], ids=str)
    async def test_host_that_finishes_the_recording_alone_is_announced(
        self, uploads: Uploads, evidence: Evidence
    ) -> None:
        a_lost_callback(uploads, evidence)
        available = a_recording(status=RecordingStatus.AVAILABLE, version=4)
        uploads.storage_switch.at(LOOK, Phase.ANSWERED, uploads.putting(available))
        assert (await uploads.attempt()).outcome is Outcome.REPUBLISHED
        assert uploads.recording == available
        assert (len(uploads.messages), uploads.told) == (1, ["RecordingAvailable"])

    async def test_row_that_somebody_changed_since_it_was_read_is_skipped(self, uploads: Uploads) -> None:
        uploads.put(a_recording(status=RecordingStatus.AVAILABLE), an_entry())
        changed = an_entry(version=6)
        uploads.switch.at("write", Phase.SENT, uploads.putting(changed))
        assert await uploads.attempt() == AttemptReport(outcome=Outcome.SKIPPED, subject=SUBJECT)
        assert uploads.entry == changed
        assert (uploads.messages, uploads.notices) == ([], [])

    async def test_recording_that_failed_meanwhile_is_closed(self, uploads: Uploads) -> None:
        a_lost_callback(uploads)
        failed = a_recording(status=RecordingStatus.FAILED, version=4)
        uploads.storage_switch.at(LOOK, Phase.ANSWERED, uploads.putting(failed))
        assert (await uploads.attempt()).outcome is Outcome.CLOSED
        assert uploads.recording == failed
        assert (uploads.messages, uploads.notices) == ([], [])

    async def test_recording_that_moved_on_is_decided_on_as_it_is_now(self, uploads: Uploads) -> None:
        uploads.put(a_recording(status=RecordingStatus.RECORDING), an_entry())
        uploads.storage.answer(KEY, found(stated_duration=None))
        moved = a_recording(version=9, ended_at=ENDED_AT - timedelta(minutes=30))
        uploads.storage_switch.at(LOOK, Phase.ANSWERED, uploads.putting(moved))
        assert (await uploads.attempt()).outcome is Outcome.RECONCILED
        assert uploads.recording.version == 10
        assert uploads.recording.media is not None
        assert uploads.recording.media.duration_seconds == 1_800

    async def test_recording_that_keeps_changing_is_left_for_later(self, uploads: Uploads) -> None:
        a_lost_callback(uploads)
        uploads.switch.at("write", Phase.SENT, lambda: None)
        for version in range(10, 20):
            uploads.switch.at("write", Phase.SENT, uploads.putting(a_recording(version=version)))
        with pytest.raises(RowRolledBack) as failure:
            await uploads.attempt()
        assert failure.value.code == "RECORDING_CHANGING"
        assert str(failure.value) == "the recording kept changing while it was being settled"
        assert len(uploads.switch.script) == 6, "it is tried three times, and then given back"
        assert (uploads.entry.status, uploads.entry.schedule.attempts) == (FinalizeStatus.PENDING, 0)

    async def test_recording_in_a_callbacks_hands_is_waited_for_before_settling(
        self, uploads: Uploads
    ) -> None:
        a_lost_callback(uploads, Missing())
        other = evolve(uploads.store, switch=uploads.store._switch)
        async with other.begin() as callback:
            uploads.storage_switch.at(LOOK, Phase.ANSWERED, lambda: callback.lock(RECORDING_ID))
            attempt = asyncio.create_task(uploads.attempt())
            for _ in range(100):
                await asyncio.sleep(0)
            assert not attempt.done()
        assert (await attempt).outcome is Outcome.FAILED
        assert uploads.entry.schedule.attempts == 1

    async def test_row_in_an_operators_hands_is_waited_for_before_settling(self, uploads: Uploads) -> None:
        a_lost_callback(uploads, Missing())
        async with evolve(uploads.store).begin() as operator:
            uploads.storage_switch.at(LOOK, Phase.ANSWERED, lambda: operator.lock_entry(ENTRY_ID))
            attempt = asyncio.create_task(uploads.attempt())
            for _ in range(100):
                await asyncio.sleep(0)
            assert not attempt.done()
        assert (await attempt).outcome is Outcome.FAILED
        assert uploads.entry.schedule.attempts == 1

    async def test_operators_requeue_during_the_look_starts_over_but_not_in_the_same_cycle(
        self, uploads: Uploads
    ) -> None:
        a_lost_callback(uploads)

        async def requeue() -> None:
            await uploads.requeue.rows([RECORDING_ID])

        uploads.storage_switch.at(LOOK, Phase.SENT, requeue)
        assert (await uploads.attempt()).outcome is Outcome.SKIPPED
        assert uploads.entry.schedule.attempts == 0
        assert await uploads.read() == []
        uploads.clock.advance(timedelta(microseconds=1))
        assert (await uploads.attempt()).outcome is Outcome.RECONCILED

    async def test_two_processes_on_the_same_reading_finish_once(self, uploads: Uploads) -> None:
        a_lost_callback(uploads)
        (candidate,) = await uploads.read()
        reports = await asyncio.gather(*(uploads.job.attempt(candidate, uploads.cycle) for _ in range(5)))
        assert sorted(report.outcome for report in reports) == [Outcome.RECONCILED] + [Outcome.SKIPPED] * 4
        assert (len(uploads.messages), len(uploads.storage.looks)) == (1, 1)

    async def test_row_in_somebody_elses_hands_is_skipped_without_waiting(self, uploads: Uploads) -> None:
        a_lost_callback(uploads)
        async with uploads.store.begin() as holder:
            assert await holder.entry(RECORDING_ID) is not None
            assert (await uploads.attempt()).outcome is Outcome.SKIPPED
        assert uploads.entry == an_entry()
        assert uploads.storage.looks == []


class TestInfrastructure:
    async def test_nothing_is_open_while_storage_is_asked(self, uploads: Uploads) -> None:
        many(uploads, 8)
        open_during_looks: list[tuple[int, int]] = []
        database = uploads.database

        def look_around() -> None:
            open_during_looks.append((database.open_transactions, database.locks.held))

        for _ in range(8):
            for phase in Phase:
                uploads.storage_switch.at(LOOK, phase, look_around)
        await uploads.run(uploads.job, lanes=1)
        assert open_during_looks == [(0, 0)] * 16

    @pytest.mark.parametrize("failure", [GONE, DEADLOCK])
    async def test_claim_that_fails_counts_nothing_and_asks_nobody(
        self, uploads: Uploads, failure: Exception
    ) -> None:
        a_lost_callback(uploads)
        uploads.switch.at("write", Phase.SENT, failure)
        with pytest.raises(type(failure)):
            await uploads.attempt()
        assert uploads.entry == an_entry()
        assert uploads.storage.looks == []

    @pytest.mark.parametrize("failure", [GONE, DEADLOCK, FORBIDDEN])
    async def test_settling_that_fails_gives_the_claim_back_however_often(
        self, uploads: Uploads, failure: Exception
    ) -> None:
        a_lost_callback(uploads)
        due = uploads.entry.schedule
        for _ in range(FINALIZATION_RULES.max_attempts + 1):
            uploads.clock.advance(timedelta(seconds=1))
            uploads.switch.at("write", Phase.SENT, lambda: None)
            uploads.switch.at("write", Phase.SENT, failure)
            with pytest.raises(type(failure)):
                await uploads.attempt()
            assert (uploads.entry.status, uploads.entry.schedule) == (FinalizeStatus.PENDING, due)
            assert uploads.entry.updated_at == uploads.clock.now()
            assert (uploads.recording, uploads.messages) == (a_recording(), [])
        assert (await uploads.attempt()).outcome is Outcome.RECONCILED

    async def test_settling_that_fails_for_lack_of_a_database_is_made_up_for_when_the_lease_is_over(
        self, uploads: Uploads
    ) -> None:
        a_lost_callback(uploads)
        uploads.switch.at("write", Phase.SENT, lambda: None)
        uploads.switch.at("write", Phase.SENT, GONE)
        uploads.switch.at("write", Phase.SENT, GONE)
        with pytest.raises(DatabaseUnavailable):
            await uploads.attempt()
        assert (uploads.entry.status, uploads.entry.schedule.attempts) == (FinalizeStatus.PENDING, 1)
        assert (uploads.recording, uploads.messages) == (a_recording(), [])
        assert await uploads.read() == []
        uploads.clock.advance(timedelta(minutes=1))
        assert (await uploads.attempt()).outcome is Outcome.RECONCILED

    async def test_after_a_settling_without_a_database_rows_are_claimed_one_by_one_until_one_is_settled(
        self, uploads: Uploads
    ) -> None:
        """A full disk takes claims and no events: each claim takes room from giving back."""
        many(uploads, 20)
        job = uploads.new_job()
        job.store = RoomForClaimsOnly(uploads.database)
        assert (await uploads.run(job, lanes=8)).end is CycleEnd.ABORTED
        for _ in range(3):
            uploads.storage.looks.clear()
            report = await uploads.run(job, lanes=8)
            assert report.end is CycleEnd.ABORTED
            assert report.counts == {Outcome.ROLLED_BACK: OUTAGE_THRESHOLD, Outcome.SKIPPED: 7}
            assert len(uploads.storage.looks) == OUTAGE_THRESHOLD
        assert all(row.schedule.attempts == 0 for row in uploads.entries)

        job.store = uploads.store
        uploads.storage.looks.clear()
        assert (await uploads.run(job, lanes=8)).counts == {Outcome.RECONCILED: 20}
        assert all(row.schedule.attempts == 1 for row in uploads.entries)

    async def test_settling_whose_answer_is_lost_is_not_made_again(self, uploads: Uploads) -> None:
        a_lost_callback(uploads)
        uploads.switch.at("write", Phase.ANSWERED, lambda: None)
        uploads.switch.at("write", Phase.ANSWERED, GONE)
        with pytest.raises(DatabaseUnavailable):
            await uploads.attempt()
        uploads.clock.advance(timedelta(days=1))
        assert await uploads.read() == []
        assert len(uploads.messages) == 1

    async def test_values_that_the_database_refuses_count_and_end_in_quarantine(
        self, uploads: Uploads
    ) -> None:
        a_lost_callback(uploads, found(size_bytes=2**63))
        outcomes = []
        for _ in range(FINALIZATION_RULES.max_attempts):
            outcomes.append((await uploads.attempt()).outcome)
            uploads.clock.advance(timedelta(minutes=15))
        assert outcomes == [Outcome.RETRIED] * 7 + [Outcome.QUARANTINED]
        assert uploads.entry.schedule.last_error == "Postgres:22003"
        assert uploads.entry.updated_at == uploads.clock.now() - timedelta(minutes=15)
        assert uploads.recording == a_recording()

    async def test_announcement_that_the_database_refuses_counts_and_ends_in_quarantine(
        self, uploads: Uploads
    ) -> None:
        uploads.put(a_recording(status=RecordingStatus.AVAILABLE), an_entry(attempts=6))
        outcomes = []
        for _ in range(2):
            uploads.switch.at("write", Phase.SENT, DataRejected("22021", "not encodable"))
            outcomes.append((await uploads.attempt()).outcome)
            uploads.clock.advance(timedelta(minutes=15))
        assert outcomes == [Outcome.RETRIED, Outcome.QUARANTINED]
        assert uploads.entry.schedule.last_error == "Postgres:22021"

    async def test_refused_announcement_is_tried_again_after_a_delay_that_the_spread_shortens(self) -> None:
        uploads = Uploads(spread=lambda: 0.5)
        uploads.put(a_recording(status=RecordingStatus.AVAILABLE), an_entry(attempts=1))
        uploads.switch.at("write", Phase.SENT, DataRejected("22021", "not encodable"))
        await uploads.attempt()
        assert uploads.entry.schedule.next_attempt_at == NOW + timedelta(minutes=2) * 0.9
        assert uploads.entry.updated_at == NOW

    async def test_batches_are_as_large_as_asked_for(self, uploads: Uploads) -> None:
        many(uploads, 5)
        await uploads.run(uploads.job, batch_size=2)
        assert uploads.telemetry.batches == [2, 2, 1]

    async def test_runner_that_always_dies_while_it_asks_is_stopped_after_the_last_attempt(
        self, uploads: Uploads
    ) -> None:
        a_lost_callback(uploads)
        for _ in range(FINALIZATION_RULES.max_attempts):
            uploads.storage_switch.at(LOOK, Phase.SENT, asyncio.CancelledError())
            with pytest.raises(asyncio.CancelledError):
                await uploads.attempt()
            uploads.clock.advance(timedelta(minutes=15))
        assert uploads.entry.schedule.attempts == FINALIZATION_RULES.max_attempts
        report = await uploads.attempt()
        assert (report.outcome, report.attempts) == (Outcome.QUARANTINED, FINALIZATION_RULES.max_attempts)
        assert report.error_code == "Finalize:ATTEMPT_NEVER_SETTLED"
        assert len(uploads.storage.looks) == FINALIZATION_RULES.max_attempts
        assert uploads.recording == a_recording()

    @pytest.mark.parametrize("step", range(1, 60))
    async def test_cancelled_cycle_leaves_rows_whole(self, uploads: Uploads, step: int) -> None:
        many(uploads, 6)
        others = asyncio.all_tasks()
        task = asyncio.create_task(uploads.run(uploads.job, batch_size=3, lanes=2))
        for _ in range(step):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        done = [row for row in uploads.entries if row.status is FinalizeStatus.DONE]
        available = [row for row in uploads.recordings if row.status is RecordingStatus.AVAILABLE]
        assert len(done) == len(available) == len(uploads.messages) == len(uploads.notices)
        assert all(row.schedule.attempts <= 1 for row in uploads.entries)
        assert (uploads.database.open_transactions, uploads.database.locks.held) == (0, 0)
        assert uploads.server.held == []
        assert asyncio.all_tasks() == others

    async def test_stop_finishes_the_rows_in_hand(self, uploads: Uploads) -> None:
        many(uploads, 10)
        uploads.storage_switch.at(LOOK, Phase.SENT, uploads.stop.request)
        report = await uploads.run(uploads.job, lanes=2)
        assert report.end is CycleEnd.STOPPED
        assert report.counts[Outcome.RECONCILED] == len(uploads.messages) <= 2
        assert sum(row.schedule.attempts for row in uploads.entries) == len(uploads.messages)


class TestPreview:
    @pytest.mark.parametrize("evidence", [found(), Missing(), SLOW, NO_BUCKET], ids=str)
    async def test_preview_says_what_an_attempt_would_come_to(
        self, uploads: Uploads, evidence: Evidence
    ) -> None:
        a_lost_callback(uploads, evidence)
        (candidate,) = await uploads.read()
        preview = await uploads.new_job().preview(candidate, uploads.cycle)
        assert (uploads.entry, uploads.recording) == (an_entry(), a_recording())
        assert preview == await uploads.attempt()

    @pytest.mark.parametrize(
        "recording",
        [
            a_recording(status=RecordingStatus.AVAILABLE),
            a_recording(status=RecordingStatus.FAILED),
            a_recording(session_ended_at=NOW),
            None,
        ],
        ids=["to be announced", "to be closed", "too early", "missing"],
    )
    async def test_preview_of_a_row_that_needs_no_storage_asks_none(
        self, uploads: Uploads, recording: CallRecording | None
    ) -> None:
        uploads.put(an_entry(), *([] if recording is None else [recording]))
        (candidate,) = await uploads.read()
        preview = await uploads.job.preview(candidate, uploads.cycle)
        assert (uploads.entry, uploads.messages, uploads.storage.looks) == (an_entry(), [], [])
        assert preview == await uploads.attempt()


class TestOpening:
    async def test_opened_row_is_due_at_once_and_opened_once(self, uploads: Uploads) -> None:
        uploads.put(a_recording())
        assert await uploads.opening(RECORDING_ID)
        assert not await uploads.opening(RECORDING_ID)
        (row,) = await uploads.read()
        assert row.recording == a_recording()
        assert row.entry == RecordingFinalize(
            id=some_id(1_000_000),
            recording_id=RECORDING_ID,
            session_kind=SessionKind.DIRECT,
            session_id=SESSION_ID,
            status=FinalizeStatus.PENDING,
            schedule=RetrySchedule(attempts=0, next_attempt_at=NOW),
            created_at=NOW,
            updated_at=NOW,
            version=0,
        )

    async def test_recording_that_is_unknown_cannot_be_opened(self, uploads: Uploads) -> None:
        with pytest.raises(LookupError, match=f"^there is no recording {some_id(1)}$"):
            await uploads.opening(some_id(1))


class TestIngest:
    @pytest.mark.parametrize(
        ("status", "result"),
        [
            (RecordingStatus.AVAILABLE, UploadResult.ALREADY_AVAILABLE),
            (RecordingStatus.FAILED, UploadResult.ALREADY_FAILED),
            (RecordingStatus.PENDING, UploadResult.NOT_STARTED),
        ],
    )
    async def test_late_or_early_call_says_so_and_changes_nothing(
        self, uploads: Uploads, status: RecordingStatus, result: UploadResult
    ) -> None:
        uploads.put(a_recording(status=status), an_entry())
        assert await uploads.ingest() is result
        assert (uploads.recording, uploads.entry) == (a_recording(status=status), an_entry())
        assert (uploads.messages, uploads.notices) == ([], [])

    async def test_unknown_recording_is_said_to_be_unknown(self, uploads: Uploads) -> None:
        assert await uploads.ingest() is UploadResult.UNKNOWN_RECORDING

    @pytest.mark.parametrize("entry", [None, FinalizeStatus.PENDING, FinalizeStatus.QUARANTINED])
    async def test_upload_finishes_everything_at_once_and_once(
        self, uploads: Uploads, entry: FinalizeStatus | None
    ) -> None:
        uploads.put(a_recording(), *([] if entry is None else [an_entry(status=entry)]))
        uploads.clock.advance(timedelta(seconds=7))
        assert await uploads.ingest() is UploadResult.AVAILABLE
        available, _ = a_recording().became_available(MEDIA, now=NOW + timedelta(seconds=7))
        assert uploads.recording == available
        assert uploads.entries == (
            [] if entry is None else [an_entry(status=entry).done(now=NOW + timedelta(seconds=7))]
        )
        assert uploads.messages[0].headers["correlation-id"] == str(some_id(78))
        assert await uploads.ingest() is UploadResult.ALREADY_AVAILABLE
        assert (len(uploads.messages), uploads.told) == (1, ["RecordingAvailable"])


class TestRequeue:
    async def test_quarantined_rows_start_over_by_either_id(self, uploads: Uploads) -> None:
        rows = [evolve(a_pair(n)[1], status=FinalizeStatus.QUARANTINED) for n in range(2)]
        uploads.put(*rows)
        uploads.clock.advance(timedelta(hours=1))
        ids = (rows[0].id, rows[1].recording_id)
        report = await uploads.requeue.rows(ids)
        assert (report.requeued, report.refused) == (ids, {})
        assert {row.status for row in uploads.entries} == {FinalizeStatus.PENDING}
        assert {row.schedule.next_attempt_at for row in uploads.entries} == {NOW + timedelta(hours=1)}

    async def test_all_takes_the_quarantined_only_and_an_error_narrows_it(self, uploads: Uploads) -> None:
        timed_out = an_entry(
            id=some_id(1), recording_id=some_id(11), status=FinalizeStatus.QUARANTINED, last_error="S:T"
        )
        unknown = an_entry(
            id=some_id(2), recording_id=some_id(12), status=FinalizeStatus.QUARANTINED, last_error="S:U"
        )
        uploads.put(timed_out, unknown, an_entry(attempts=3, last_error="S:T"))
        dry = await uploads.requeue.poison(dry_run=True)
        assert set(dry.requeued) == {timed_out.id, unknown.id}
        assert set(uploads.entries) == {timed_out, unknown, an_entry(attempts=3, last_error="S:T")}
        assert (await uploads.requeue.poison(error="S:T")).requeued == (timed_out.id,)
        assert (await uploads.requeue.poison()).requeued == (unknown.id,)

    async def test_done_and_unknown_rows_are_refused_with_a_reason(self, uploads: Uploads) -> None:
        done = an_entry(status=FinalizeStatus.DONE)
        uploads.put(done)
        report = await uploads.requeue.rows([done.id, some_id(99)])
        assert report.requeued == ()
        assert report.refused == {
            done.id: "a finished finalization stays finished",
            some_id(99): "there is no such finalization",
        }
        assert uploads.entry == done

    async def test_row_locked_for_too_long_is_refused_and_the_others_start_over(
        self, uploads: Uploads
    ) -> None:
        held, free = an_entry(id=some_id(1), recording_id=some_id(11)), an_entry()
        uploads.put(held, free)
        async with uploads.store.begin() as holder:
            assert await holder.lock_entry(held.id) is not None
            requeue = asyncio.create_task(uploads.requeue.rows([held.id, free.id]))
            await until(lambda: uploads.database.locks.waiting > 0)
            uploads.clock.advance(timedelta(seconds=5))
            report = await requeue
        assert report.requeued == (free.id,)
        assert report.refused == {held.id: "waited too long for a lock"}


async def until(holds: Callable[[], bool], *, turns: int = 1_000) -> None:
    for _ in range(turns):
        if holds():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not come to hold")


def test_claim_is_not_reported_since_its_look_is_to_come() -> None:
    with pytest.raises(ValueError, match=r"^a claim is no outcome$"):
        report(seen(a_recording()), Claim(entry=an_entry()))


async def test_clock_set_back_during_a_cycle_does_not_bring_a_row_back_into_it(uploads: Uploads) -> None:
    a_lost_callback(uploads, SLOW)
    uploads.as_of += timedelta(hours=1)  # the cycle began before the clock was set back by an hour
    await uploads.attempt()
    assert uploads.entry.schedule.attempts == 1
    assert uploads.entry.schedule.next_attempt_at > uploads.as_of
