"""Which rows are read and counted, with what, and in which order."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, timedelta
from uuid import UUID

import pytest
from attrs import evolve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from messenger_jobs.application.cursor import Cursor
from messenger_jobs.application.ports.finalization import FinalizationBacklog
from messenger_jobs.domain.call_recording import MediaType, RecordingStatus, SessionKind
from messenger_jobs.domain.finalization import FinalizeSnapshot
from messenger_jobs.domain.recording_finalize import FinalizeStatus, RecordingFinalize

from tests.contract.finalization_harness import (
    AS_OF,
    FinalizationContract,
    FinalizationHarness,
    a_new_pair,
    change_of,
    new_id,
    verdict_on,
)
from tests.support.builders import MICROSECOND
from tests.support.recordings import ENTRY_ID, RECORDING_ID, a_recording, an_entry, seen

EDGES = st.sampled_from([-MICROSECOND, timedelta(0), MICROSECOND, -timedelta(days=400), timedelta(days=400)])


@st.composite
def entries(draw: st.DrawFn) -> RecordingFinalize:
    """A finalization at, or a microsecond off, the edge of what is due."""
    return an_entry(
        id=new_id(),
        recording_id=new_id(),
        status=draw(st.sampled_from(FinalizeStatus)),
        attempts=draw(st.sampled_from([0, 7, 8, 1000])),
        next_attempt_at=AS_OF + draw(EDGES),
        last_error=draw(st.sampled_from([None, "Storage:TIMEOUT"])),
        created_at=AS_OF + draw(EDGES),
    )


tables = st.lists(entries(), max_size=25)
several_tables = settings(
    max_examples=25,
    # One database serves all examples, and one contract several adapters.
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
)


def place(entry: RecordingFinalize) -> tuple[object, UUID]:
    return entry.schedule.next_attempt_at, entry.id


async def read(harness: FinalizationHarness, *, limit: int = 10) -> list[FinalizeSnapshot]:
    return list(await harness.store.candidates(as_of=AS_OF, after=None, limit=limit))


class Selection(FinalizationContract):
    """Candidates and counts agree with the domain's rule."""

    @pytest.mark.parametrize("status", RecordingStatus)
    async def test_candidate_comes_with_its_recording(
        self, harness: FinalizationHarness, status: RecordingStatus
    ) -> None:
        recording, entry = a_recording(status=status), an_entry(attempts=3, last_error="Storage:TIMEOUT")
        await harness.put(recording, entry, a_recording(id=new_id()))
        assert await read(harness) == [seen(recording, entry)]

    async def test_recording_comes_as_it_is_stored(self, harness: FinalizationHarness) -> None:
        recording = a_recording(
            session_kind=SessionKind.CONFERENCE,
            session_ended_at=None,
            chat_id=None,
            deal_id=None,
            tenant_id=new_id(),
            media_type=MediaType.AUDIO,
            trigger="Ж" * 32,
            object_key="Ж" * 512,
            ended_at=None,
            version=2**62,
        )
        await harness.put(recording, an_entry())
        assert await read(harness) == [seen(recording)]

    async def test_times_are_read_in_utc_whatever_zone_a_session_has(
        self, harness: FinalizationHarness
    ) -> None:
        await harness.put(a_recording(status=RecordingStatus.AVAILABLE), an_entry())
        (snapshot,) = await read(harness)
        recording, entry = snapshot.recording, snapshot.entry
        assert recording is not None
        times = (
            *(entry.schedule.next_attempt_at, entry.created_at, entry.updated_at),
            *(recording.session_ended_at, recording.started_at, recording.ended_at, recording.available_at),
            *(recording.created_at, recording.updated_at),
        )
        assert {time and time.tzinfo for time in times} == {UTC}

    async def test_candidate_whose_recording_is_gone_has_none(self, harness: FinalizationHarness) -> None:
        await harness.put(an_entry())
        assert await read(harness) == [seen(None)]

    async def test_candidate_knows_whether_its_event_is_recorded(self, harness: FinalizationHarness) -> None:
        told, entry = a_recording(status=RecordingStatus.AVAILABLE), an_entry()
        untold, other = a_new_pair(status=RecordingStatus.AVAILABLE)
        await harness.put(told, entry, untold, other)
        republished = change_of(verdict_on(seen(told, entry)))
        assert await harness.store.write(evolve(republished, entry=None, notice=None))
        assert sorted(snapshot.event_recorded for snapshot in await read(harness)) == [False, True]
        snapshot = await harness.store.snapshot(entry.id)
        assert snapshot == seen(told, entry, event_recorded=True)

    @several_tables
    @given(table=tables, limit=st.integers(min_value=1, max_value=7))
    async def test_pages_behind_the_cursor_are_the_due_rows_in_order(
        self, harness: FinalizationHarness, table: list[RecordingFinalize], limit: int
    ) -> None:
        await harness.put(*table)
        own = {row.id for row in table}
        taken: list[UUID] = []
        after: Cursor | None = None
        while page := await harness.store.candidates(as_of=AS_OF, after=after, limit=limit):
            assert len(page) <= limit
            taken += [snapshot.entry.id for snapshot in page]
            last = page[-1].entry
            after = Cursor(next_attempt_at=last.schedule.next_attempt_at, id=last.id)
        assert len(taken) == len(set(taken))
        due = [row for row in sorted(table, key=place) if row.is_due(as_of=AS_OF)]
        assert [id for id in taken if id in own] == [row.id for row in due]

    async def test_rows_due_at_the_same_time_come_by_id(self, harness: FinalizationHarness) -> None:
        ids = [UUID(int=n << 120 | 0xFF) for n in (0x80, 0x7F, 0x01, 0xFE)]
        await harness.put(*(an_entry(id=id, recording_id=new_id()) for id in ids))
        assert [snapshot.entry.id for snapshot in await read(harness)] == sorted(ids)

    async def test_candidates_are_read_past_locks(self, harness: FinalizationHarness) -> None:
        await harness.put(a_recording(), an_entry())
        async with harness.other.begin() as holder:
            assert await holder.lock(RECORDING_ID) is not None
            assert await holder.lock_entry(ENTRY_ID) is not None
            assert await read(harness) == [seen(a_recording())]

    @pytest.mark.parametrize("status", FinalizeStatus)
    async def test_snapshot_is_of_a_row_in_any_state(
        self, harness: FinalizationHarness, status: FinalizeStatus
    ) -> None:
        entry = an_entry(status=status, next_attempt_at=AS_OF + timedelta(days=1))
        await harness.put(a_recording(), entry)
        assert await harness.store.snapshot(ENTRY_ID) == seen(a_recording(), entry)
        assert await harness.store.snapshot(RECORDING_ID) is None

    @several_tables
    @given(table=tables)
    async def test_backlog_counts_what_is_unfinished(
        self, harness: FinalizationHarness, table: list[RecordingFinalize]
    ) -> None:
        await harness.put(*table)
        # Tables of earlier examples are still there, so what counts is everything stored.
        everything = (await harness.stored()).entries
        assert await harness.store.backlog(as_of=AS_OF) == expected_backlog(everything)

    async def test_backlog_of_an_empty_table_is_zero(self, harness: FinalizationHarness) -> None:
        backlog = await harness.store.backlog(as_of=AS_OF)
        assert backlog == FinalizationBacklog(pending=0, due=0, quarantined=0, oldest_created_at=None)

    @several_tables
    @given(table=tables, error=st.sampled_from([None, "Storage:TIMEOUT", "Storage:TIME"]))
    async def test_quarantined_ids_are_those_of_that_error(
        self, harness: FinalizationHarness, table: list[RecordingFinalize], error: str | None
    ) -> None:
        await harness.put(*table)
        own = {row.id for row in table}
        assert own & set(await harness.store.quarantined_ids(error=error)) == {
            row.id
            for row in table
            if row.status is FinalizeStatus.QUARANTINED and error in (None, row.schedule.last_error)
        }


def expected_backlog(entries: Sequence[RecordingFinalize]) -> FinalizationBacklog:
    pending = [row for row in entries if row.status is FinalizeStatus.PENDING]
    return FinalizationBacklog(
        pending=len(pending),
        due=sum(row.is_due(as_of=AS_OF) for row in entries),
        quarantined=sum(row.status is FinalizeStatus.QUARANTINED for row in entries),
        oldest_created_at=min((row.created_at for row in pending), default=None),
    )
