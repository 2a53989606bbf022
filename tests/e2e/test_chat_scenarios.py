"""Deal chats that got stuck, on a real PostgreSQL: what the job is for, scenario by scenario."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta

import psycopg
import pytest
from attrs import define, field
from messenger_jobs.adapters.memory.clock import ManualClock
from messenger_jobs.adapters.memory.telemetry import MemoryTelemetry
from messenger_jobs.adapters.postgres.audit import audit
from messenger_jobs.application.chat_provision_retry import CHAT_PROVISION_RETRY
from messenger_jobs.application.cycle_report import AttemptReport, Cycle, CycleEnd, CycleReport, Outcome
from messenger_jobs.application.ports.run_lock import RunLocks
from messenger_jobs.application.rehearsal import UncontendedRunLocks
from messenger_jobs.application.stop_signal import StopSignal
from messenger_jobs.domain.deal_chat_provision import ProvisionStatus
from messenger_jobs.entrypoints.bootstrap import Application, bootstrap
from messenger_jobs.entrypoints.settings import load_settings

from tests.contract.postgres_harness import PooledHarness, pooled_harness
from tests.support.builders import (
    BUYER,
    CHAT_ID,
    MICROSECOND,
    NOW,
    RULES,
    SELLER,
    a_chat,
    a_failed_provision,
    a_participant,
    a_provision,
    some_id,
)

GUEST = some_id(13)

# A row of this title makes its transaction fail, as a deadlock would, every time.
_ALWAYS_ROLLED_BACK = """
create function messenger.deadlock() returns trigger language plpgsql as
$$ begin raise exception 'deadlock' using errcode = '40P01'; end $$;
create trigger deadlock before update on messenger.deal_chat_provisions
    for each row when (old.title = 'always rolled back') execute function messenger.deadlock();
"""
_SEED = """
with due as (
    insert into messenger.deal_chat_provisions
        (id, deal_id, title, status, attempts, next_attempt_at, created_at, updated_at)
    select gen_random_uuid(), gen_random_uuid(), %(title)s, 'Failed', 1, %(since)s, %(since)s, %(since)s
    from generate_series(1, %(count)s)
    returning id
)
insert into messenger.deal_chat_provision_members (provision_id, user_id, role)
select id, gen_random_uuid(), 'Buyer' from due
"""


@define
class Telemetry(MemoryTelemetry):
    """Asks for a stop after the first attempt, where a test wants that."""

    stop_after_one: StopSignal | None = field(default=None, kw_only=True)

    def attempted(self, cycle: Cycle, report: AttemptReport) -> None:
        super().attempted(cycle, report)
        if self.stop_after_one is not None:
            self.stop_after_one.request()


@define
class Messenger:
    """The database, and processes that work on it at a time of the test's choosing."""

    url: str
    database: PooledHarness
    clock: ManualClock = field(factory=lambda: ManualClock(NOW))
    telemetry: Telemetry = field(factory=Telemetry)

    def process(
        self, *, concurrency: int = 1, locks: RunLocks | None = None
    ) -> AbstractAsyncContextManager[Application]:
        variables = {
            "MESSENGER_DATABASE_URL": self.url,
            "MESSENGER_CHAT_PROVISION_RETRY_CONCURRENCY": str(concurrency),
        }
        return bootstrap(load_settings(variables), clock=self.clock, telemetry=self.telemetry, locks=locks)

    async def cycle(self, *, concurrency: int = 1, stop: StopSignal | None = None) -> CycleReport:
        async with self.process(concurrency=concurrency) as application:
            return await application.jobs[CHAT_PROVISION_RETRY].run(stop or StopSignal())

    def seed(self, count: int, *, title: str = "Flat 12", since: datetime = NOW - timedelta(hours=1)) -> None:
        with psycopg.connect(self.url) as connection:
            connection.execute(_SEED, {"count": count, "title": title, "since": since})

    async def statuses_told(self) -> list[object]:
        return [message.payload["status"] for message in (await self.database.stored()).messages]

    async def violations(self) -> list[str]:
        """The invariants that the database breaks."""
        async with await psycopg.AsyncConnection.connect(self.url) as connection:
            findings = await audit(
                connection, max_attempts=RULES.max_attempts, since=NOW - timedelta(days=365)
            )
        return [finding.claim for finding in findings if finding.violations]


@pytest.fixture
async def messenger(database_url: str) -> AsyncGenerator[Messenger]:
    async with pooled_harness(database_url) as database:
        yield Messenger(database_url, database)


async def test_nothing_due_changes_nothing_and_is_a_success(messenger: Messenger) -> None:
    await messenger.database.put(
        a_provision(updated_at=NOW - RULES.stuck_after + MICROSECOND),  # the consumer's, for now
        a_chat(id=some_id(40), deal_id=some_id(41)),
    )
    before = await messenger.database.stored()
    report = await messenger.cycle()
    assert (report.end, report.counts) == (CycleEnd.COMPLETED, {})
    assert await messenger.database.stored() == before


async def test_failed_deal_without_a_chat_gets_chat_members_and_is_told_ready(messenger: Messenger) -> None:
    await messenger.database.put(a_failed_provision())
    report = await messenger.cycle()
    assert report.counts == {Outcome.PROVISIONED: 1}
    stored = await messenger.database.stored()
    (provision,), (chat,), (entry,) = stored.provisions, stored.chats, stored.feed
    assert (provision.status, provision.chat_id) == (ProvisionStatus.READY, chat.id)
    assert (chat.kind, chat.status, chat.deal_id) == ("Deal", "Active", provision.deal_id)
    assert {each.user_id: each.role for each in stored.participants} == {BUYER: "Buyer", SELLER: "Seller"}
    assert (entry.type, entry.actor, entry.chat_id) == ("DealChatProvisioned", "System", chat.id)
    assert await messenger.statuses_told() == ["Ready"]
    assert await messenger.violations() == []


async def test_provisioning_that_is_stuck_is_driven_to_ready(messenger: Messenger) -> None:
    await messenger.database.put(a_provision(updated_at=NOW - RULES.stuck_after))
    await messenger.cycle()
    (provision,) = (await messenger.database.stored()).provisions
    assert (provision.status, provision.schedule.attempts) == (ProvisionStatus.READY, 1)
    assert await messenger.statuses_told() == ["Ready"]


async def test_chat_that_exists_only_gets_its_missing_members_and_ready_is_told(messenger: Messenger) -> None:
    await messenger.database.put(
        a_failed_provision(),
        a_chat(),
        a_participant(BUYER, "Buyer", left_at=NOW - timedelta(hours=1)),
        a_participant(GUEST, "Guest"),
    )
    await messenger.cycle()
    stored = await messenger.database.stored()
    assert [chat.id for chat in stored.chats] == [CHAT_ID]
    assert {each.user_id: (each.role, each.left_at) for each in stored.participants} == {
        BUYER: ("Buyer", None),
        SELLER: ("Seller", None),
        GUEST: ("Guest", None),
    }
    assert stored.feed == []
    assert await messenger.statuses_told() == ["Ready"]


async def test_last_failed_attempt_ends_failed_with_an_alert_and_is_not_taken_again(
    messenger: Messenger,
) -> None:
    await messenger.database.put(
        a_failed_provision(attempts=RULES.max_attempts - 1), a_chat(status="Archived")
    )
    report = await messenger.cycle()
    assert report.counts == {Outcome.FAILED: 1}
    assert [told.outcome for told in messenger.telemetry.attempts] == [Outcome.FAILED]
    messenger.clock.advance(timedelta(days=1))
    assert (await messenger.cycle()).counts == {}
    (provision,) = (await messenger.database.stored()).provisions
    assert provision.status is ProvisionStatus.FAILED
    assert provision.schedule.attempts == RULES.max_attempts
    assert provision.schedule.last_error == "ProvisionGuard:CHAT_NOT_ACTIVE"
    assert await messenger.statuses_told() == ["Failed"]
    assert await messenger.violations() == []


async def test_of_two_runners_one_works_and_the_other_skips(messenger: Messenger) -> None:
    messenger.seed(20)
    async with (
        messenger.process() as one,
        messenger.process() as two,
        await psycopg.AsyncConnection.connect(messenger.url) as somebody,
    ):
        # Nobody is done before both have begun.
        await somebody.execute("lock table messenger.deal_chat_provisions")
        cycles = [
            asyncio.ensure_future(each.jobs[CHAT_PROVISION_RETRY].run(StopSignal())) for each in (one, two)
        ]
        ((skipped,), (working,)) = await asyncio.wait(cycles, return_when=asyncio.FIRST_COMPLETED)
        await somebody.rollback()
        assert (await skipped).end is CycleEnd.SKIPPED
        assert (await working).end is CycleEnd.COMPLETED
    assert await messenger.statuses_told() == ["Ready"] * 20


async def test_two_runners_without_the_lock_provision_every_deal_once(messenger: Messenger) -> None:
    messenger.seed(200)
    free = UncontendedRunLocks()
    async with (
        messenger.process(concurrency=4, locks=free) as one,
        messenger.process(concurrency=4, locks=free) as two,
    ):
        reports = await asyncio.gather(
            *(each.jobs[CHAT_PROVISION_RETRY].run(StopSignal()) for each in (one, two))
        )
    assert sum(report.counts.get(Outcome.PROVISIONED, 0) for report in reports) == 200
    stored = await messenger.database.stored()
    assert {provision.schedule.attempts for provision in stored.provisions} == {2}
    assert (len(stored.chats), len(stored.feed), len(stored.messages)) == (200, 200, 200)
    assert await messenger.violations() == []


async def test_consumer_that_is_first_wins_and_nothing_is_done_twice(messenger: Messenger) -> None:
    await messenger.database.put(a_provision())
    async with messenger.process() as consumer, consumer.store.begin() as work:
        seen = await work.claim(a_provision().id, as_of=NOW, rules=RULES)
        assert seen is not None
        while_locked = await messenger.cycle()
        await consumer.provisioning.within(work, seen, correlation_id=some_id(99))
        await work.commit()
    afterwards = await messenger.cycle()
    assert (while_locked.counts, afterwards.counts) == ({Outcome.SKIPPED: 1}, {})
    stored = await messenger.database.stored()
    assert (len(stored.chats), len(stored.feed), len(stored.messages)) == (1, 1, 1)
    assert [provision.schedule.attempts for provision in stored.provisions] == [1]


async def test_stop_in_the_middle_finishes_the_row_in_hand_and_frees_the_lock(messenger: Messenger) -> None:
    messenger.seed(5)
    stop = StopSignal()
    messenger.telemetry.stop_after_one = stop
    report = await messenger.cycle(stop=stop)
    assert (report.end, report.counts) == (CycleEnd.STOPPED, {Outcome.PROVISIONED: 1})
    stored = await messenger.database.stored()
    assert [provision.status for provision in stored.provisions].count(ProvisionStatus.READY) == 1
    assert len(stored.messages) == 1
    await messenger.database.assert_nothing_left()
    messenger.telemetry.stop_after_one = None
    assert (await messenger.cycle()).counts == {Outcome.PROVISIONED: 4}


async def test_rows_that_always_roll_back_do_not_starve_the_rows_behind_them(messenger: Messenger) -> None:
    with psycopg.connect(messenger.url) as connection:
        connection.execute(_ALWAYS_ROLLED_BACK)
    messenger.seed(150, title="always rolled back", since=NOW - timedelta(hours=2))
    messenger.seed(1000)
    report = await messenger.cycle(concurrency=4)
    assert report.counts == {Outcome.ROLLED_BACK: 150, Outcome.PROVISIONED: 1000}
    stored = await messenger.database.stored()
    attempts = {provision.title: provision.schedule.attempts for provision in stored.provisions}
    assert attempts == {"always rolled back": 1, "Flat 12": 2}
    assert await messenger.violations() == []
