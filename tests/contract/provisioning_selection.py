"""Which rows are read, claimed and counted, and in which order."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, timedelta
from uuid import UUID

from attrs import evolve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from messenger_jobs.application.cursor import Cursor
from messenger_jobs.application.ports.provisioning import ProvisioningBacklog
from messenger_jobs.domain.deal_chat_provision import DealChatProvision, ProvisioningRules, ProvisionStatus
from messenger_jobs.domain.errors import AttemptError
from messenger_jobs.domain.provisioning import ProvisionSnapshot, Refused

from tests.contract.provisioning_harness import (
    AS_OF,
    LATER,
    ProvisioningContract,
    ProvisioningHarness,
    new_id,
    sorted_members,
    unordered,
)
from tests.support.builders import (
    BUYER,
    CHAT_ID,
    DEAL_ID,
    MICROSECOND,
    PROVISION_ID,
    RULES,
    SELLER,
    a_chat,
    a_failed_provision,
    a_member,
    a_participant,
    a_provision,
    a_ready_provision,
    some_id,
)

EDGES = st.sampled_from([-MICROSECOND, timedelta(0), MICROSECOND, -timedelta(days=400), timedelta(days=400)])
STUCK_SINCE = AS_OF - RULES.stuck_after


@st.composite
def rows(draw: st.DrawFn) -> DealChatProvision:
    """A provision at, or a microsecond off, the edges of what is due."""
    own = new_id()
    status = draw(st.sampled_from(ProvisionStatus))
    return evolve(
        a_provision(
            id=own,
            deal_id=new_id(),
            status=status,
            chat_id=CHAT_ID if status is ProvisionStatus.READY else None,
            attempts=draw(st.sampled_from([0, 1, RULES.max_attempts - 1, RULES.max_attempts, 1000])),
            next_attempt_at=AS_OF + draw(EDGES),
            last_error=draw(st.sampled_from([None, "ProvisionGuard:NO_MEMBERS"])),
            members=(),
            updated_at=STUCK_SINCE + draw(EDGES),
        ),
        created_at=AS_OF + draw(EDGES),
    )


tables = st.lists(rows(), max_size=25)
several_tables = settings(
    max_examples=25,
    # One database serves all examples, and one contract several adapters.
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
)


def is_due(provision: DealChatProvision) -> bool:
    return provision.is_due(as_of=AS_OF, rules=RULES)


def place(provision: DealChatProvision) -> tuple[object, UUID]:
    return provision.schedule.next_attempt_at, provision.id


class Selection(ProvisioningContract):
    """Candidates, claims and counts agree with the domain's rule."""

    async def test_candidate_comes_with_all_that_an_attempt_decides_on(
        self, harness: ProvisioningHarness
    ) -> None:
        provision = a_failed_provision(attempts=3)
        chat = a_chat(version=4)
        there = a_participant(SELLER, "Broker")
        gone = a_participant(BUYER, left_at=AS_OF)
        await harness.put(chat, there, gone, provision)
        (seen,) = await harness.store.candidates(as_of=AS_OF, after=None, limit=10, rules=RULES)
        assert unordered(seen) == unordered(
            ProvisionSnapshot(provision=provision, chat=chat, participants=(there, gone))
        )

    async def test_times_are_read_in_utc_whatever_zone_a_session_has(
        self, harness: ProvisioningHarness
    ) -> None:
        await harness.put(a_chat(), a_participant(left_at=AS_OF), a_provision())
        (seen,) = await harness.store.candidates(as_of=AS_OF, after=None, limit=10, rules=RULES)
        (participant,) = seen.participants
        assert seen.chat is not None
        times = (
            *(seen.provision.schedule.next_attempt_at, seen.provision.created_at, seen.provision.updated_at),
            *(seen.chat.created_at, seen.chat.updated_at, participant.joined_at, participant.left_at),
        )
        assert {time and time.tzinfo for time in times} == {UTC}

    async def test_candidate_of_a_deal_without_a_chat_has_none(self, harness: ProvisioningHarness) -> None:
        provision = a_provision(members=(a_member(), a_member(SELLER, "Ж" * 32)), title="Ж" * 256)
        others_chat = a_chat(id=some_id(900), deal_id=some_id(901))
        await harness.put(others_chat, a_participant(chat_id=some_id(900)), provision)
        (seen,) = await harness.store.candidates(as_of=AS_OF, after=None, limit=10, rules=RULES)
        assert unordered(seen) == unordered(ProvisionSnapshot(provision=provision))

    async def test_candidate_without_members_has_none(self, harness: ProvisioningHarness) -> None:
        await harness.put(a_provision(members=()))
        (seen,) = await harness.store.candidates(as_of=AS_OF, after=None, limit=10, rules=RULES)
        assert seen.provision.members == ()

    @several_tables
    @given(table=tables, limit=st.integers(min_value=1, max_value=7))
    async def test_pages_behind_the_cursor_are_the_due_rows_in_order(
        self, harness: ProvisioningHarness, table: list[DealChatProvision], limit: int
    ) -> None:
        await harness.put(a_chat(), *table)
        own = {row.id for row in table}
        found: list[UUID] = []
        after: Cursor | None = None
        while page := await harness.store.candidates(as_of=AS_OF, after=after, limit=limit, rules=RULES):
            assert len(page) <= limit
            found += [seen.provision.id for seen in page]
            last = page[-1].provision
            after = Cursor(next_attempt_at=last.schedule.next_attempt_at, id=last.id)
        assert len(found) == len(set(found))
        assert [row for row in found if row in own] == [
            row.id for row in sorted(table, key=place) if is_due(row)
        ]

    async def test_rows_due_at_the_same_time_come_by_id(self, harness: ProvisioningHarness) -> None:
        ids = [UUID(int=n << 120 | 0xFF) for n in (0x80, 0x7F, 0x01, 0xFE)]
        await harness.put(*(a_provision(id=id, deal_id=new_id()) for id in ids))
        found = await harness.store.candidates(as_of=AS_OF, after=None, limit=10, rules=RULES)
        assert [seen.provision.id for seen in found] == sorted(ids)

    @several_tables
    @given(table=tables)
    async def test_claim_takes_exactly_the_due_rows(
        self, harness: ProvisioningHarness, table: list[DealChatProvision]
    ) -> None:
        await harness.put(a_chat(), *table)
        async with harness.store.begin() as work:
            for row in table:
                seen = await work.claim(row.id, as_of=AS_OF, rules=RULES)
                assert (seen is not None) == is_due(row)
                assert seen is None or seen.provision == row

    @several_tables
    @given(table=tables)
    async def test_settling_without_a_lock_checks_the_whole_rule_again(
        self, harness: ProvisioningHarness, table: list[DealChatProvision]
    ) -> None:
        await harness.put(a_chat(), *table)
        for row in table:
            after = evolve(row, updated_at=LATER, version=row.version + 1)
            verdict = Refused(provision=after, error=AttemptError("Test", "NONE"), event=None)
            seen = ProvisionSnapshot(provision=row)
            settled = await harness.store.settle(seen, verdict, None, as_of=AS_OF, rules=RULES)
            assert settled == is_due(row)

    async def test_stuck_time_of_zero_takes_a_provision_at_once(self, harness: ProvisioningHarness) -> None:
        await harness.put(a_provision(updated_at=AS_OF))
        rules = ProvisioningRules(max_attempts=1, stuck_after=timedelta(0))
        assert len(await harness.store.candidates(as_of=AS_OF, after=None, limit=10, rules=rules)) == 1

    async def test_claim_of_an_unknown_row_is_none(self, harness: ProvisioningHarness) -> None:
        async with harness.store.begin() as work:
            assert await work.claim(PROVISION_ID, as_of=AS_OF, rules=RULES) is None

    async def test_claim_reads_what_is_committed_by_now(self, harness: ProvisioningHarness) -> None:
        await harness.put(a_provision())
        async with harness.store.begin() as work:
            await harness.put(a_failed_provision(attempts=2, version=5), a_chat(), a_participant())
            seen = await work.claim(PROVISION_ID, as_of=AS_OF, rules=RULES)
        assert seen is not None
        assert unordered(seen) == ProvisionSnapshot(
            provision=sorted_members(a_failed_provision(attempts=2, version=5)),
            chat=a_chat(),
            participants=(a_participant(),),
        )

    async def test_lock_takes_a_row_in_any_state(self, harness: ProvisioningHarness) -> None:
        await harness.put(a_chat(), a_ready_provision(attempts=9))
        async with harness.store.begin() as work:
            locked = await work.lock(PROVISION_ID)
            assert locked is not None
            assert sorted_members(locked) == sorted_members(a_ready_provision(attempts=9))
            assert await work.lock(DEAL_ID) is None

    async def test_refresh_reads_the_chat_that_has_come_to_be(self, harness: ProvisioningHarness) -> None:
        await harness.put(a_provision())
        async with harness.store.begin() as work:
            seen = await work.claim(PROVISION_ID, as_of=AS_OF, rules=RULES)
            assert seen is not None
            await harness.put(a_chat(), a_participant())
            fresh = await work.refresh(seen)
        assert fresh == evolve(seen, chat=a_chat(), participants=(a_participant(),))

    @several_tables
    @given(table=tables)
    async def test_backlog_counts_what_people_wait_for(
        self, harness: ProvisioningHarness, table: list[DealChatProvision]
    ) -> None:
        await harness.put(a_chat(), *table)
        # Tables of earlier examples are still there, so what counts is everything stored.
        everything = (await harness.stored()).provisions
        assert await harness.store.backlog(as_of=AS_OF, rules=RULES) == expected_backlog(everything)

    async def test_backlog_of_an_empty_table_is_zero(self, harness: ProvisioningHarness) -> None:
        backlog = await harness.store.backlog(as_of=AS_OF, rules=RULES)
        assert backlog == ProvisioningBacklog(failed=0, due=0, waiting=0, poison=0, oldest_created_at=None)

    @several_tables
    @given(table=tables, error=st.sampled_from([None, "ProvisionGuard:NO_MEMBERS", "Postgres:22001"]))
    async def test_poison_is_what_is_not_ready_and_has_no_attempt_left(
        self, harness: ProvisioningHarness, table: list[DealChatProvision], error: str | None
    ) -> None:
        await harness.put(a_chat(), *table)
        own = {row.id for row in table}
        assert own & set(await harness.store.poison_ids(rules=RULES, error=error)) == {
            row.id
            for row in table
            if row.status is not ProvisionStatus.READY
            and row.schedule.exhausted(RULES.max_attempts)
            and error in (None, row.schedule.last_error)
        }


def expected_backlog(provisions: Sequence[DealChatProvision]) -> ProvisioningBacklog:
    waited_for = [
        row
        for row in provisions
        if row.status is ProvisionStatus.FAILED
        or (row.status is ProvisionStatus.PROVISIONING and row.updated_at <= STUCK_SINCE)
    ]
    alive = [
        row
        for row in provisions
        if row.status is not ProvisionStatus.READY and not row.schedule.exhausted(RULES.max_attempts)
    ]
    return ProvisioningBacklog(
        failed=len(waited_for),
        due=sum(map(is_due, provisions)),
        waiting=len(alive) - sum(map(is_due, provisions)),
        poison=sum(row.schedule.exhausted(RULES.max_attempts) for row in waited_for),
        oldest_created_at=min((row.created_at for row in waited_for), default=None),
    )
