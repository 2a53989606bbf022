"""What every `FinalizationInspection` must show."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from messenger_jobs.application.ports.finalization_inspection import FinalizationInspection
from messenger_jobs.application.ports.row_summary import RowState, RowSummary
from messenger_jobs.application.row_states import finalization_state
from messenger_jobs.domain.call_recording import RecordingStatus
from messenger_jobs.domain.recording_finalize import RecordingFinalize

from tests.contract.finalization_harness import (
    AS_OF,
    FinalizationHarness,
    a_new_pair,
    change_of,
    verdict_on,
)
from tests.contract.finalization_selection import several_tables, tables
from tests.support.builders import some_id
from tests.support.recordings import ENTRY_ID, RECORDING_ID, a_recording, an_entry, seen


def summary_of(entry: RecordingFinalize) -> RowSummary:
    schedule = entry.schedule
    return RowSummary(
        id=entry.id,
        subject={"recording_id": entry.recording_id, "session_id": entry.session_id},
        status=entry.status.value,
        attempts=schedule.attempts,
        next_attempt_at=schedule.next_attempt_at,
        last_error=schedule.last_error,
        created_at=entry.created_at,
        updated_at=entry.updated_at,
    )


async def listed(inspection: FinalizationInspection, state: RowState, *, limit: int) -> list[RowSummary]:
    rows: list[RowSummary] = []
    after: RowSummary | None = None
    while page := await inspection.page(state, as_of=AS_OF, after=after, limit=limit):
        assert len(page) <= limit
        rows += page
        after = page[-1]
    return rows


def in_order(state: RowState, rows: Sequence[RecordingFinalize]) -> list[RecordingFinalize]:
    match state:
        case RowState.FINISHED:
            return sorted(rows, key=lambda row: row.id)
        case RowState.POISON:
            return sorted(rows, key=lambda row: (row.created_at, row.id))
        case RowState.DUE | RowState.WAITING:
            return sorted(rows, key=lambda row: (row.schedule.next_attempt_at, row.id))


class FinalizationInspectionContract:
    """The whole contract; a subclass for an adapter overrides both fixtures."""

    @pytest.fixture
    async def harness(self) -> FinalizationHarness:
        raise NotImplementedError("an adapter's subclass says what its harness is")

    @pytest.fixture
    def inspection(self, harness: FinalizationHarness) -> FinalizationInspection:
        raise NotImplementedError("an adapter's subclass says what it inspects with")

    @pytest.mark.parametrize("id", [ENTRY_ID, RECORDING_ID], ids=["its own", "its recording's"])
    @pytest.mark.parametrize("status", RecordingStatus)
    async def test_row_is_found_by_either_id_with_its_recording(
        self,
        harness: FinalizationHarness,
        inspection: FinalizationInspection,
        id: UUID,
        status: RecordingStatus,
    ) -> None:
        recording = a_recording(status=status)
        await harness.put(recording, an_entry(), *a_new_pair())
        assert await inspection.find(id) == seen(recording)

    async def test_own_id_comes_before_a_recordings(
        self, harness: FinalizationHarness, inspection: FinalizationInspection
    ) -> None:
        _, other = a_new_pair()
        await harness.put(an_entry(), evolve(other, recording_id=ENTRY_ID))
        assert await inspection.find(ENTRY_ID) == seen(None)

    async def test_recording_that_was_never_opened_has_a_status_and_no_row(
        self, harness: FinalizationHarness, inspection: FinalizationInspection
    ) -> None:
        await harness.put(a_recording(status=RecordingStatus.RECORDING))
        assert await inspection.find(RECORDING_ID) is None
        assert await inspection.recording_status(RECORDING_ID) is RecordingStatus.RECORDING
        assert await inspection.recording_status(some_id(404)) is None
        assert await inspection.holder(some_id(404)) is None

    @several_tables
    @given(table=tables, limit=st.integers(min_value=1, max_value=7))
    async def test_pages_hold_every_row_once_in_the_state_that_the_domain_says(
        self,
        harness: FinalizationHarness,
        inspection: FinalizationInspection,
        table: list[RecordingFinalize],
        limit: int,
    ) -> None:
        await harness.put(*table)
        own = {row.id for row in table}
        for state in RowState:
            expected = [row for row in table if finalization_state(row, as_of=AS_OF) is state]
            rows = [row for row in await listed(inspection, state, limit=limit) if row.id in own]
            assert rows == [summary_of(row) for row in in_order(state, expected)], state

    async def test_what_the_outside_was_told_is_traced_without_contents(
        self, harness: FinalizationHarness, inspection: FinalizationInspection
    ) -> None:
        await harness.put(a_recording(), an_entry())
        found = await harness.store.snapshot(ENTRY_ID)
        assert found is not None
        assert await harness.store.write(change_of(verdict_on(found)))

        traces = await inspection.traces(RECORDING_ID)

        (message,), (notice,) = traces.messages, traces.notices
        stored = await harness.stored()
        (told,), (hinted,) = stored.messages_about(RECORDING_ID), stored.notices_about(RECORDING_ID)
        assert (message.event_id, message.event_type) == (told.event_id, "CallRecordingAvailable")
        assert (message.published_at, message.dead_at) == (None, None)
        assert (notice.id, notice.kind, notice.dispatched_at) == (hinted.id, "RecordingAvailable", None)
        assert await inspection.find(ENTRY_ID) == await harness.store.snapshot(ENTRY_ID)

    async def test_recording_that_nobody_was_told_of_has_no_traces(
        self, harness: FinalizationHarness, inspection: FinalizationInspection
    ) -> None:
        await harness.put(a_recording(), an_entry())
        traces = await inspection.traces(RECORDING_ID)
        assert (list(traces.messages), list(traces.notices)) == ([], [])

    async def test_recording_is_held_apart_from_its_row(
        self, harness: FinalizationHarness, inspection: FinalizationInspection
    ) -> None:
        await harness.put(a_recording(), an_entry())
        assert await inspection.recording_holder(RECORDING_ID) is None
        async with harness.other.begin() as work:
            assert await work.lock(RECORDING_ID) is not None
            assert await inspection.recording_holder(RECORDING_ID) is not None
            assert await inspection.holder(ENTRY_ID) is None
        assert await inspection.recording_holder(RECORDING_ID) is None
        await harness.assert_nothing_left()

    async def test_row_is_held_while_another_transaction_has_it_locked(
        self, harness: FinalizationHarness, inspection: FinalizationInspection
    ) -> None:
        await harness.put(a_recording(), an_entry())
        assert await inspection.holder(ENTRY_ID) is None
        async with harness.other.begin() as work:
            assert await work.lock_entry(ENTRY_ID) is not None
            assert await inspection.holder(ENTRY_ID) is not None
        assert await inspection.holder(ENTRY_ID) is None
        await harness.assert_nothing_left()
