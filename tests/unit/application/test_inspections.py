"""Rows as operators look at them: by state, one with what belongs to it, and why it is taken or not."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

import pytest
from attrs import evolve
from messenger_jobs.adapters.memory.finalization_inspection import MemoryFinalizationInspection
from messenger_jobs.adapters.memory.provisioning_inspection import MemoryProvisioningInspection
from messenger_jobs.adapters.memory.schema import OutboxRow
from messenger_jobs.application.explain_finalization import explain_finalization
from messenger_jobs.application.explain_provision import explain_provision
from messenger_jobs.application.inspect_finalizations import InspectFinalizations
from messenger_jobs.application.inspect_provisions import InspectProvisions
from messenger_jobs.application.inspection import PAGE_SIZE, ListedRow, NoSuchRow, listed_by_pages
from messenger_jobs.application.integration_events import call_recording_available, deal_chat_status_changed
from messenger_jobs.application.ports.provisioning_inspection import DealTraces
from messenger_jobs.application.ports.row_holder import RowHolder
from messenger_jobs.application.ports.row_summary import RowState, RowSummary
from messenger_jobs.application.row_states import finalization_summary, provision_summary
from messenger_jobs.domain.call_recording import RecordingAvailable, RecordingStatus
from messenger_jobs.domain.chat import ChatEvent
from messenger_jobs.domain.deal_chat_provision import DealChatStatusChanged, ProvisionStatus
from messenger_jobs.domain.recording_finalize import FinalizeStatus

from tests.support.builders import (
    CHAT_ID,
    DEAL_ID,
    NOW,
    PROVISION_ID,
    RULES,
    SELLER,
    a_chat,
    a_failed_provision,
    a_participant,
    a_provision,
    a_ready_provision,
    some_id,
)
from tests.support.recordings import (
    ENDED_AT,
    ENTRY_ID,
    FINALIZATION_RULES,
    RECORDING_ID,
    a_recording,
    an_entry,
    seen,
)
from tests.unit.application.deals import Deals
from tests.unit.application.uploads import Uploads

MINUTE = timedelta(minutes=1)
HELD = RowHolder()


def a_row(number: int) -> RowSummary:
    return finalization_summary(an_entry(id=some_id(number)))


class Pages:
    """Rows by state, and what was asked for."""

    def __init__(self, rows: dict[RowState, Sequence[int]]) -> None:
        self.rows = rows
        self.asked: list[tuple[RowState, int | None, int]] = []

    async def __call__(
        self, state: RowState, *, after: RowSummary | None, limit: int
    ) -> Sequence[RowSummary]:
        self.asked.append((state, None if after is None else after.id.int, limit))
        rows = self.rows.get(state, ())
        return [a_row(n) for n in rows if after is None or n > after.id.int][:limit]


class TestPages:
    async def test_states_are_read_one_after_another_in_the_order_asked_for(self) -> None:
        pages = Pages({RowState.DUE: [1, 2], RowState.POISON: [3]})
        rows = await listed_by_pages([RowState.POISON, RowState.WAITING, RowState.DUE], limit=9, page=pages)
        assert rows == [
            ListedRow(state=RowState.POISON, row=a_row(3)),
            ListedRow(state=RowState.DUE, row=a_row(1)),
            ListedRow(state=RowState.DUE, row=a_row(2)),
        ]
        assert pages.asked == [
            (RowState.POISON, None, 9),
            (RowState.WAITING, None, 8),
            (RowState.DUE, None, 8),
        ]

    async def test_page_follows_the_last_row_of_the_one_before_until_one_is_short(self) -> None:
        pages = Pages({RowState.DUE: range(1, PAGE_SIZE + 2)})
        rows = await listed_by_pages([RowState.DUE], limit=10 * PAGE_SIZE, page=pages)
        assert [listed.row.id.int for listed in rows] == [*range(1, PAGE_SIZE + 2)]
        assert pages.asked == [(RowState.DUE, None, PAGE_SIZE), (RowState.DUE, PAGE_SIZE, PAGE_SIZE)]

    async def test_no_more_is_read_than_asked_for(self) -> None:
        pages = Pages({RowState.DUE: range(1, 2 * PAGE_SIZE), RowState.POISON: [5_000]})
        rows = await listed_by_pages([RowState.DUE, RowState.POISON], limit=PAGE_SIZE + 1, page=pages)
        assert len(rows) == PAGE_SIZE + 1
        assert pages.asked == [(RowState.DUE, None, PAGE_SIZE), (RowState.DUE, PAGE_SIZE, 1)]

    async def test_row_that_changes_meanwhile_is_listed_once_as_first_read(self) -> None:
        pages = Pages({RowState.DUE: [1], RowState.WAITING: [1, 2]})
        rows = await listed_by_pages([RowState.DUE, RowState.WAITING], limit=9, page=pages)
        assert rows == [
            ListedRow(state=RowState.DUE, row=a_row(1)),
            ListedRow(state=RowState.WAITING, row=a_row(2)),
        ]


@pytest.fixture
def deals() -> Deals:
    return Deals()


@pytest.fixture
def provisions(deals: Deals) -> InspectProvisions:
    return InspectProvisions(
        provisions=MemoryProvisioningInspection(deals.database), clock=deals.clock, rules=RULES
    )


class TestProvisions:
    async def test_states_are_those_of_the_time_of_listing(
        self, deals: Deals, provisions: InspectProvisions
    ) -> None:
        waiting = a_failed_provision(next_attempt_at=NOW + MINUTE)
        deals.put(waiting)
        assert await provisions.listed([RowState.DUE], limit=9) == []
        deals.clock.advance(MINUTE)
        assert await provisions.listed([*RowState], limit=9) == [
            ListedRow(state=RowState.DUE, row=provision_summary(waiting))
        ]

    async def test_no_more_than_the_limit_is_listed_and_no_row_twice(
        self, deals: Deals, provisions: InspectProvisions
    ) -> None:
        rows = [a_provision(id=some_id(1000 + n), deal_id=some_id(5000 + n)) for n in range(PAGE_SIZE + 2)]
        deals.put(*rows)
        listed = await provisions.listed([RowState.DUE], limit=PAGE_SIZE + 1)
        assert [entry.row.id for entry in listed] == [row.id for row in rows[:-1]]

    @pytest.mark.parametrize("id", [PROVISION_ID, DEAL_ID], ids=["its own", "its deal's"])
    async def test_one_is_shown_with_its_chat_and_what_it_left_behind(
        self, deals: Deals, provisions: InspectProvisions, id: UUID
    ) -> None:
        ready = a_ready_provision(version=4)
        deals.put(a_chat(), ready)
        deals.put(a_participant(), a_participant(some_id(13)), a_participant(SELLER, left_at=NOW))
        deals.database.put(
            deals.database.chat_events,
            ChatEvent(
                id=some_id(50),
                chat_id=CHAT_ID,
                type="DealChatProvisioned",
                actor="System",
                occurred_at=NOW,
                data={},
            ),
        )
        told = DealChatStatusChanged(
            deal_id=DEAL_ID, chat_id=CHAT_ID, status=ProvisionStatus.READY, occurred_at=NOW
        )
        message = deal_chat_status_changed(told, event_id=some_id(60), correlation_id=some_id(61))
        deals.database.put(
            deals.database.outbox,
            OutboxRow(id=7, message=message, created_at=NOW, published_at=NOW + MINUTE),
            OutboxRow(
                id=8,
                message=deal_chat_status_changed(told, event_id=some_id(62), correlation_id=some_id(61)),
                created_at=NOW,
                dead_at=NOW + 2 * MINUTE,
            ),
        )

        shown = await provisions.shown(id)

        assert shown.listed == ListedRow(state=RowState.FINISHED, row=provision_summary(ready))
        assert shown.details == {
            "members": 2,
            "deals_chat_id": CHAT_ID,
            "chat_kind": "Deal",
            "chat_status": "Active",
            "participants": 2,
            "version": 4,
        }
        assert shown.parts == {
            "events": [{"id": some_id(50), "type": "DealChatProvisioned", "occurred_at": NOW}],
            "messages": [
                {
                    "id": 7,
                    "event_id": some_id(60),
                    "event_type": "DealChatStatusChanged",
                    "occurred_at": NOW,
                    "published_at": NOW + MINUTE,
                    "dead_at": None,
                },
                {
                    "id": 8,
                    "event_id": some_id(62),
                    "event_type": "DealChatStatusChanged",
                    "occurred_at": NOW,
                    "published_at": None,
                    "dead_at": NOW + 2 * MINUTE,
                },
            ],
        }

    async def test_one_without_a_chat_is_shown_as_such(
        self, deals: Deals, provisions: InspectProvisions
    ) -> None:
        deals.put(a_failed_provision(next_attempt_at=NOW + MINUTE))
        deals.clock.advance(MINUTE)
        shown = await provisions.shown(PROVISION_ID)
        assert shown.listed.state is RowState.DUE
        assert shown.details == {
            "members": 2,
            "deals_chat_id": None,
            "chat_kind": None,
            "chat_status": None,
            "participants": 0,
            "version": 1,
        }
        assert shown.parts == {"events": [], "messages": []}

    async def test_messages_that_could_not_be_found_in_time_are_not_said_to_be_none(
        self, deals: Deals
    ) -> None:
        class LargeOutbox(MemoryProvisioningInspection):
            async def traces(self, deal_id: UUID) -> DealTraces:
                return evolve(await super().traces(deal_id), messages=None)

        deals.put(a_provision())
        provisions = InspectProvisions(provisions=LargeOutbox(deals.database), clock=deals.clock, rules=RULES)
        assert (await provisions.shown(PROVISION_ID)).parts == {"events": [], "messages": None}

    async def test_one_is_explained_as_of_now(self, deals: Deals, provisions: InspectProvisions) -> None:
        row = a_failed_provision(next_attempt_at=NOW + MINUTE)
        deals.put(row)
        deals.clock.advance(MINUTE)
        explained = await provisions.explained(DEAL_ID)
        assert explained.listed == ListedRow(state=RowState.DUE, row=provision_summary(row))
        assert explained.explanation == explain_provision(row, as_of=NOW + MINUTE, rules=RULES, holder=None)
        assert explained.details == {}

    async def test_holder_of_the_row_is_told(self, deals: Deals, provisions: InspectProvisions) -> None:
        deals.put(a_provision())
        async with deals.store.begin() as other:
            await other.lock(PROVISION_ID)
            assert (await provisions.explained(DEAL_ID)).explanation.holder == HELD

    async def test_id_of_nothing_is_said_to_be_none(
        self, deals: Deals, provisions: InspectProvisions
    ) -> None:
        deals.put(a_provision())
        for looking in (provisions.shown, provisions.explained):
            with pytest.raises(
                NoSuchRow, match=r"^there is no provision with this id, and none of a deal with it$"
            ):
                await looking(some_id(404))


@pytest.fixture
def uploads() -> Uploads:
    return Uploads()


@pytest.fixture
def finalizations(uploads: Uploads) -> InspectFinalizations:
    return InspectFinalizations(
        finalizations=MemoryFinalizationInspection(uploads.database),
        clock=uploads.clock,
        rules=FINALIZATION_RULES,
    )


class TestFinalizations:
    async def test_states_are_those_of_the_time_of_listing(
        self, uploads: Uploads, finalizations: InspectFinalizations
    ) -> None:
        waiting = an_entry(next_attempt_at=NOW + MINUTE)
        uploads.put(waiting)
        assert await finalizations.listed([RowState.DUE], limit=9) == []
        uploads.clock.advance(MINUTE)
        assert await finalizations.listed([*RowState], limit=9) == [
            ListedRow(state=RowState.DUE, row=finalization_summary(waiting))
        ]

    async def test_no_more_than_the_limit_is_listed_and_no_row_twice(
        self, uploads: Uploads, finalizations: InspectFinalizations
    ) -> None:
        rows = [an_entry(id=some_id(1000 + n), recording_id=some_id(5000 + n)) for n in range(PAGE_SIZE + 2)]
        uploads.put(*rows)
        listed = await finalizations.listed([RowState.DUE], limit=PAGE_SIZE + 1)
        assert [entry.row.id for entry in listed] == [row.id for row in rows[:-1]]

    @pytest.mark.parametrize("id", [ENTRY_ID, RECORDING_ID], ids=["its own", "its recording's"])
    async def test_one_is_shown_with_what_the_outside_was_told(
        self, uploads: Uploads, finalizations: InspectFinalizations, id: UUID
    ) -> None:
        available = RecordingAvailable(recording=a_recording(status=RecordingStatus.AVAILABLE))
        done = an_entry(status=FinalizeStatus.DONE)
        uploads.put(available.recording, done)
        message = call_recording_available(available, event_id=some_id(60), correlation_id=some_id(61))
        uploads.database.put(uploads.database.outbox, OutboxRow(id=7, message=message, created_at=NOW))
        notice = uploads.announcer.notice(available)
        uploads.database.put(uploads.database.realtime_outbox, notice)

        shown = await finalizations.shown(id)

        assert shown.listed == ListedRow(state=RowState.FINISHED, row=finalization_summary(done))
        assert shown.details == {
            "recording_status": "Available",
            "session_ended_at": ENDED_AT,
            "event_recorded": True,
            "version": 5,
        }
        assert shown.parts == {
            "messages": [
                {
                    "id": 7,
                    "event_id": some_id(60),
                    "event_type": "CallRecordingAvailable",
                    "occurred_at": NOW - 10 * MINUTE,
                    "published_at": None,
                    "dead_at": None,
                }
            ],
            "notices": [
                {"id": notice.id, "kind": "RecordingAvailable", "created_at": NOW, "dispatched_at": None}
            ],
        }

    async def test_one_is_explained_as_of_now(
        self, uploads: Uploads, finalizations: InspectFinalizations
    ) -> None:
        recording, entry = a_recording(), an_entry(next_attempt_at=NOW + MINUTE)
        uploads.put(recording, entry)
        uploads.clock.advance(MINUTE)
        explained = await finalizations.explained(RECORDING_ID)
        assert explained.listed == ListedRow(state=RowState.DUE, row=finalization_summary(entry))
        assert explained.explanation == explain_finalization(
            seen(recording, entry), as_of=NOW + MINUTE, rules=FINALIZATION_RULES
        )
        assert explained.details == {
            "recording_status": "Uploading",
            "session_ended_at": ENDED_AT,
            "event_recorded": False,
        }

    async def test_one_whose_recording_is_missing_is_shown_and_explained_as_such(
        self, uploads: Uploads, finalizations: InspectFinalizations
    ) -> None:
        uploads.put(an_entry(next_attempt_at=NOW + MINUTE))
        uploads.clock.advance(MINUTE)
        missing = {"recording_status": None, "session_ended_at": None, "event_recorded": False}
        shown = await finalizations.shown(ENTRY_ID)
        assert shown.listed.state is RowState.DUE
        assert shown.details == {**missing, "version": 5}
        assert shown.parts == {"messages": [], "notices": []}
        assert (await finalizations.explained(ENTRY_ID)).details == missing

    async def test_holders_of_the_row_and_of_its_recording_are_told_apart(
        self, uploads: Uploads, finalizations: InspectFinalizations
    ) -> None:
        uploads.put(a_recording(), an_entry())
        async with uploads.store.begin() as other:
            await other.lock(RECORDING_ID)
            explanation = (await finalizations.explained(ENTRY_ID)).explanation
            assert (explanation.holder, explanation.recording_holder) == (None, HELD)
        async with uploads.store.begin() as other:
            await other.lock_entry(ENTRY_ID)
            explanation = (await finalizations.explained(ENTRY_ID)).explanation
            assert (explanation.holder, explanation.recording_holder) == (HELD, None)

    async def test_id_without_a_row_says_what_is_known_of_it(
        self, uploads: Uploads, finalizations: InspectFinalizations
    ) -> None:
        uploads.put(a_recording(status=RecordingStatus.RECORDING))
        for looking in (finalizations.shown, finalizations.explained):
            with pytest.raises(NoSuchRow, match=r"^there is no finalization with this id, and no recording$"):
                await looking(some_id(404))
            with pytest.raises(
                NoSuchRow, match=r"^the recording is Recording and was never opened for finalization$"
            ):
                await looking(RECORDING_ID)
