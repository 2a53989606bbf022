"""What every `ProvisioningInspection` must show."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from messenger_jobs.application.ports.provisioning_inspection import ProvisioningInspection
from messenger_jobs.application.ports.row_summary import RowState, RowSummary
from messenger_jobs.application.row_states import provision_state
from messenger_jobs.domain.deal_chat_provision import DealChatProvision
from messenger_jobs.domain.provisioning import ProvisionSnapshot

from tests.contract.provisioning_harness import (
    AS_OF,
    LATER,
    ProvisioningHarness,
    a_new_provision,
    message_of,
    provisioned,
    read,
    unordered,
)
from tests.contract.provisioning_selection import several_tables, tables
from tests.support.builders import (
    DEAL_ID,
    MICROSECOND,
    PROVISION_ID,
    RULES,
    a_chat,
    a_failed_provision,
    a_participant,
    a_provision,
    some_id,
)


def summary_of(provision: DealChatProvision) -> RowSummary:
    schedule = provision.schedule
    return RowSummary(
        id=provision.id,
        subject={"deal_id": provision.deal_id, "chat_id": provision.chat_id},
        status=provision.status.value,
        attempts=schedule.attempts,
        next_attempt_at=schedule.next_attempt_at,
        last_error=schedule.last_error,
        created_at=provision.created_at,
        updated_at=provision.updated_at,
    )


async def listed(inspection: ProvisioningInspection, state: RowState, *, limit: int) -> list[RowSummary]:
    rows: list[RowSummary] = []
    after: RowSummary | None = None
    while page := await inspection.page(state, as_of=AS_OF, rules=RULES, after=after, limit=limit):
        assert len(page) <= limit
        rows += page
        after = page[-1]
    return rows


def in_order(state: RowState, rows: Sequence[DealChatProvision]) -> list[DealChatProvision]:
    if state is RowState.FINISHED:
        return sorted(rows, key=lambda row: row.id)
    return sorted(rows, key=lambda row: (row.schedule.next_attempt_at, row.id))


class ProvisioningInspectionContract:
    """The whole contract; a subclass for an adapter overrides both fixtures."""

    @pytest.fixture
    async def harness(self) -> ProvisioningHarness:
        raise NotImplementedError("an adapter's subclass says what its harness is")

    @pytest.fixture
    def inspection(self, harness: ProvisioningHarness) -> ProvisioningInspection:
        raise NotImplementedError("an adapter's subclass says what it inspects with")

    @pytest.mark.parametrize("id", [PROVISION_ID, DEAL_ID], ids=["its own", "its deal's"])
    async def test_row_is_found_by_either_id_with_its_chat(
        self, harness: ProvisioningHarness, inspection: ProvisioningInspection, id: UUID
    ) -> None:
        await harness.put(a_chat(), a_participant(), a_provision(), a_new_provision())
        seen = await inspection.find(id)
        assert seen is not None
        assert unordered(seen) == unordered(
            ProvisionSnapshot(provision=a_provision(), chat=a_chat(), participants=(a_participant(),))
        )

    async def test_own_id_comes_before_a_deals(
        self, harness: ProvisioningHarness, inspection: ProvisioningInspection
    ) -> None:
        await harness.put(a_provision(), evolve(a_new_provision(), deal_id=PROVISION_ID))
        seen = await inspection.find(PROVISION_ID)
        assert seen is not None
        assert seen.provision.id == PROVISION_ID

    async def test_id_of_nothing_finds_nothing(
        self, harness: ProvisioningHarness, inspection: ProvisioningInspection
    ) -> None:
        await harness.put(a_provision())
        assert await inspection.find(some_id(404)) is None
        assert await inspection.holder(some_id(404)) is None

    @several_tables
    @given(table=tables, limit=st.integers(min_value=1, max_value=7))
    async def test_pages_hold_every_row_once_in_the_state_that_the_domain_says(
        self,
        harness: ProvisioningHarness,
        inspection: ProvisioningInspection,
        table: list[DealChatProvision],
        limit: int,
    ) -> None:
        await harness.put(a_chat(), *table)
        own = {row.id for row in table}
        for state in RowState:
            expected = [row for row in table if provision_state(row, as_of=AS_OF, rules=RULES) is state]
            rows = [row for row in await listed(inspection, state, limit=limit) if row.id in own]
            assert rows == [summary_of(row) for row in in_order(state, expected)], state

    async def test_what_provisioning_left_behind_is_traced_without_contents(
        self, harness: ProvisioningHarness, inspection: ProvisioningInspection
    ) -> None:
        for row in (a_provision(), other := a_new_provision()):
            await harness.put(row)
            seen = await read(harness.store, row)
            verdict = provisioned(seen)
            assert await harness.store.settle(seen, verdict, message_of(verdict), as_of=AS_OF, rules=RULES)

        traces = await inspection.traces(DEAL_ID)

        (event,), messages = traces.events, traces.messages
        assert messages is not None
        (message,) = messages
        stored = await harness.stored()
        (told,) = stored.messages_about(DEAL_ID)
        chat = stored.chat_of(DEAL_ID)
        assert chat is not None
        assert (event.type, event.occurred_at) == ("DealChatProvisioned", LATER)
        assert event.id == next(entry.id for entry in stored.feed if entry.chat_id == chat.id)
        assert (message.event_id, message.event_type) == (told.event_id, "DealChatStatusChanged")
        assert (message.published_at, message.dead_at) == (None, None)
        assert stored.messages_about(other.deal_id)

    async def test_deal_without_anything_has_no_traces(
        self, harness: ProvisioningHarness, inspection: ProvisioningInspection
    ) -> None:
        await harness.put(a_provision())
        traces = await inspection.traces(DEAL_ID)
        assert (list(traces.events), list(traces.messages or [])) == ([], [])

    async def test_row_is_held_while_another_transaction_has_it_locked(
        self, harness: ProvisioningHarness, inspection: ProvisioningInspection
    ) -> None:
        await harness.put(a_provision())
        assert await inspection.holder(PROVISION_ID) is None
        async with harness.other.begin() as work:
            assert await work.lock(PROVISION_ID) is not None
            assert await inspection.holder(PROVISION_ID) is not None
            assert await work.lock(PROVISION_ID) is not None, "looking has taken nothing away"
        assert await inspection.holder(PROVISION_ID) is None
        await harness.assert_nothing_left()

    async def test_row_is_held_while_a_change_of_it_is_not_committed(
        self, harness: ProvisioningHarness, inspection: ProvisioningInspection
    ) -> None:
        await harness.put(a_provision())
        async with harness.writing(a_failed_provision()):
            assert await inspection.holder(PROVISION_ID) is not None
            seen = await inspection.find(PROVISION_ID)
            assert seen is not None
            assert seen.provision.version == 0
        assert await inspection.holder(PROVISION_ID) is None

    async def test_looking_keeps_nobody_from_claiming(
        self, harness: ProvisioningHarness, inspection: ProvisioningInspection
    ) -> None:
        await harness.put(a_provision())
        await inspection.holder(PROVISION_ID)
        async with harness.other.begin() as work:
            assert await work.claim(PROVISION_ID, as_of=AS_OF + MICROSECOND, rules=RULES) is not None
