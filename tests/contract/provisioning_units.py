"""Units of work against each other: locks, isolation, roll back."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from messenger_jobs.application.ports.errors import DataRejected, RowRolledBack
from messenger_jobs.application.ports.provisioning import ProvisioningUnit
from messenger_jobs.domain.deal_chat_provision import DealChatProvision
from messenger_jobs.domain.provisioning import ProvisionSnapshot

from tests.contract.provisioning_harness import (
    AS_OF,
    LATER,
    ProvisioningContract,
    ProvisioningHarness,
    a_new_provision,
    message_of,
    provisioned,
    read,
    refused,
)
from tests.support.builders import (
    PROVISION_ID,
    RULES,
    a_failed_provision,
    a_provision,
)


async def claimed(work: ProvisioningUnit, provision: DealChatProvision) -> ProvisionSnapshot:
    seen = await work.claim(provision.id, as_of=AS_OF, rules=RULES)
    assert seen is not None
    return seen


class Units(ProvisioningContract):
    """What two open transactions see of each other, and what stays of one that fails."""

    async def test_claimed_row_is_skipped_by_others_until_its_transaction_ends(
        self, harness: ProvisioningHarness
    ) -> None:
        row, free = a_new_provision(), a_new_provision()
        await harness.put(row, free)
        async with harness.store.begin() as first, harness.other.begin() as second:
            await claimed(first, row)
            assert await second.claim(row.id, as_of=AS_OF, rules=RULES) is None
            await claimed(second, free)
        async with harness.other.begin() as third:
            await claimed(third, row)
        await harness.assert_nothing_left()

    async def test_row_is_locked_by_its_deal_as_by_its_own_id(self, harness: ProvisioningHarness) -> None:
        row = a_new_provision()
        await harness.put(row, a_new_provision())
        async with harness.store.begin() as first, harness.other.begin() as second:
            locked = await first.lock_of_deal(row.deal_id)
            assert locked is not None
            assert locked.id == row.id
            assert await second.claim(row.id, as_of=AS_OF, rules=RULES) is None
            assert await first.lock_of_deal(row.id) is None
        await harness.assert_nothing_left()

    async def test_own_claim_can_be_repeated(self, harness: ProvisioningHarness) -> None:
        await harness.put(a_provision())
        async with harness.store.begin() as work:
            assert await claimed(work, a_provision()) == await claimed(work, a_provision())
            assert await work.lock(PROVISION_ID) is not None

    async def test_row_is_free_after_the_commit(self, harness: ProvisioningHarness) -> None:
        await harness.put(a_provision())
        async with harness.store.begin() as first:
            await claimed(first, a_provision())
            await first.commit()
            async with harness.other.begin() as second:
                await claimed(second, a_provision())

    async def test_locked_row_is_settled_by_nobody_else(self, harness: ProvisioningHarness) -> None:
        await harness.put(a_provision())
        seen = await read(harness.store, a_provision())
        before = await harness.stored()
        async with harness.other.begin() as holder:
            await claimed(holder, a_provision())
            verdict = provisioned(seen)
            settled = await harness.store.settle(seen, verdict, message_of(verdict), as_of=AS_OF, rules=RULES)
        assert not settled
        assert await harness.stored() == before

    async def test_candidates_are_read_past_locks(self, harness: ProvisioningHarness) -> None:
        await harness.put(a_provision())
        async with harness.other.begin() as holder:
            await claimed(holder, a_provision())
            await read(harness.store, a_provision())

    async def test_lock_waits_and_sees_what_its_holder_committed(self, harness: ProvisioningHarness) -> None:
        await harness.put(a_provision())
        async with harness.store.begin() as waiting:
            async with harness.writing(a_failed_provision(version=1)):
                lock = asyncio.create_task(waiting.lock(PROVISION_ID))
                await harness.until_blocked()
            locked = await lock
        assert locked is not None
        assert locked.version == 1

    async def test_lock_waits_and_sees_the_old_row_when_its_holder_rolled_back(
        self, harness: ProvisioningHarness
    ) -> None:
        await harness.put(a_provision())
        async with harness.store.begin() as waiting:
            async with harness.writing_in_vain(a_failed_provision(version=1)):
                lock = asyncio.create_task(waiting.lock(PROVISION_ID))
                await harness.until_blocked()
            locked = await lock
        assert locked is not None
        assert locked.version == 0

    async def test_too_long_a_wait_rolls_back_the_one_who_waits(self, harness: ProvisioningHarness) -> None:
        await harness.put(a_provision())
        async with harness.store.begin() as holder:
            await claimed(holder, a_provision())
            async with harness.other.begin() as waiting:
                lock = asyncio.create_task(waiting.lock(PROVISION_ID))
                await harness.until_blocked()
                await harness.pass_lock_timeout()
                with pytest.raises(RowRolledBack) as failure:
                    await lock
                assert failure.value.code == "55P03"
            assert (await holder.lock(PROVISION_ID)) is not None
        await harness.assert_nothing_left()

    async def test_of_two_who_wait_in_a_circle_one_is_rolled_back_and_the_other_goes_on(
        self, harness: ProvisioningHarness
    ) -> None:
        rows = a_new_provision(), a_new_provision()
        await harness.put(*rows)
        async with harness.store.begin() as one, harness.other.begin() as two:
            await claimed(one, rows[0])
            await claimed(two, rows[1])
            first = asyncio.create_task(one.lock(rows[1].id))
            await harness.until_blocked()
            second = asyncio.create_task(two.lock(rows[0].id))
            async with asyncio.timeout(30):
                ends = await asyncio.gather(first, second, return_exceptions=True)
            assert sorted(type(end).__name__ for end in ends) == ["DealChatProvision", "RowRolledBack"]
            survivor, victim = (one, two) if isinstance(ends[1], RowRolledBack) else (two, one)
            await survivor.commit()
            with pytest.raises(RowRolledBack):
                await victim.commit()
        await harness.assert_nothing_left()

    async def test_cancelled_wait_leaves_no_lock(self, harness: ProvisioningHarness) -> None:
        await harness.put(a_provision())

        async def wait() -> None:
            async with harness.other.begin() as waiting:
                await waiting.lock(PROVISION_ID)

        async with harness.store.begin() as holder:
            await claimed(holder, a_provision())
            lock = asyncio.create_task(wait())
            await harness.until_blocked()
            lock.cancel()
            with pytest.raises(asyncio.CancelledError):
                await lock
        await harness.assert_nothing_left()

    async def test_nobody_sees_what_is_not_committed(self, harness: ProvisioningHarness) -> None:
        await harness.put(a_provision())
        before = await harness.stored()
        backlog = await harness.other.backlog(as_of=AS_OF, rules=RULES)
        async with harness.store.begin() as writing, harness.other.begin() as reading:
            seen = await claimed(writing, a_provision())
            verdict = provisioned(seen)
            assert await writing.settle(seen, verdict)
            assert await writing.outbox.add(message_of(verdict))
            assert await harness.stored() == before
            assert await read(harness.other, a_provision()) == seen
            assert await reading.refresh(seen) == seen
            assert await harness.other.backlog(as_of=AS_OF, rules=RULES) == backlog
            await writing.commit()
            refreshed = await reading.refresh(seen)
        assert refreshed.chat is not None
        assert refreshed.chat.id == verdict.chat_id

    async def test_unit_sees_its_own_writes(self, harness: ProvisioningHarness) -> None:
        await harness.put(a_provision())
        async with harness.store.begin() as work:
            seen = await claimed(work, a_provision())
            verdict = provisioned(seen)
            assert await work.settle(seen, verdict)
            locked = await work.lock(PROVISION_ID)
            assert locked is not None
            assert locked.version == 1
            fresh = await work.refresh(seen)
            assert fresh.chat == verdict.new_chat.chat if verdict.new_chat else False
            assert {row.user_id for row in fresh.participants} == {
                row.user_id for row in verdict.participants
            }

    async def test_leaving_without_commit_undoes_everything(self, harness: ProvisioningHarness) -> None:
        await harness.put(a_provision())
        before = await harness.stored()
        async with harness.store.begin() as work:
            seen = await claimed(work, a_provision())
            verdict = provisioned(seen)
            assert await work.settle(seen, verdict)
            assert await work.outbox.add(message_of(verdict))
        assert await harness.stored() == before
        await harness.assert_nothing_left()

    async def test_error_undoes_everything_and_comes_through(self, harness: ProvisioningHarness) -> None:
        await harness.put(a_provision())
        before = await harness.stored()

        async def fail() -> None:
            async with harness.store.begin() as work:
                seen = await claimed(work, a_provision())
                assert await work.settle(seen, refused(seen))
                raise LookupError

        with pytest.raises(LookupError):
            await fail()
        assert await harness.stored() == before
        await harness.assert_nothing_left()

    async def test_savepoint_undoes_just_its_part(self, harness: ProvisioningHarness) -> None:
        await harness.put(a_provision())
        async with harness.store.begin() as work:
            seen = await claimed(work, a_provision())
            with suppress(LookupError):
                async with work.savepoint():
                    verdict = provisioned(seen)
                    assert await work.settle(seen, verdict)
                    assert await work.outbox.add(message_of(verdict))
                    raise LookupError
            assert await work.settle(seen, refused(seen))
            await work.commit()
        stored = await harness.stored()
        assert (stored.chats, stored.participants, stored.feed, stored.messages) == ([], [], [], [])
        assert stored.provision(PROVISION_ID).schedule.last_error == "ProvisionGuard:NO_MEMBERS"

    async def test_savepoint_that_ends_well_is_part_of_the_whole(self, harness: ProvisioningHarness) -> None:
        row, other = a_new_provision(), a_new_provision()
        await harness.put(row, other)
        async with harness.store.begin() as work:
            async with work.savepoint():
                seen = await claimed(work, row)
                assert await work.settle(seen, provisioned(seen))
            with suppress(LookupError):
                async with work.savepoint():
                    raise LookupError
            await work.commit()
        stored = await harness.stored()
        assert stored.provision(row.id).version == 1
        assert stored.provision(other.id).version == 0
        assert stored.chat_of(row.deal_id) is not None

    async def test_savepoint_that_fails_frees_the_rows_locked_in_it(
        self, harness: ProvisioningHarness
    ) -> None:
        await harness.put(a_provision())
        async with harness.store.begin() as first, harness.other.begin() as second:
            with suppress(LookupError):
                async with first.savepoint():
                    await claimed(first, a_provision())
                    raise LookupError
            await claimed(second, a_provision())

    async def test_unit_goes_on_after_a_refused_savepoint(self, harness: ProvisioningHarness) -> None:
        row, other = a_new_provision(), a_new_provision()
        await harness.put(row, other)
        taken = message_of(provisioned(await read(harness.store, other)))
        async with harness.store.begin() as work:
            seen = await claimed(work, row)
            assert await work.outbox.add(taken)
            with suppress(DataRejected):
                async with work.savepoint():
                    await work.outbox.add(taken)
            assert await work.settle(seen, refused(seen))
            await work.commit()
        stored = await harness.stored()
        assert stored.messages == [taken]
        assert stored.provision(row.id).version == 1

    async def test_unit_that_failed_outside_a_savepoint_commits_nothing(
        self, harness: ProvisioningHarness
    ) -> None:
        await harness.put(a_provision())
        before = await harness.stored()
        async with harness.store.begin() as work:
            seen = await claimed(work, a_provision())
            verdict = provisioned(seen)
            assert await work.settle(seen, verdict)
            message = message_of(verdict)
            assert await work.outbox.add(message)
            with pytest.raises(DataRejected):
                await work.outbox.add(message)
            with pytest.raises(RowRolledBack):
                await work.refresh(seen)
            with pytest.raises(RowRolledBack):
                await work.commit()
        assert await harness.stored() == before
        await harness.assert_nothing_left()

    async def test_requeue_starts_over(self, harness: ProvisioningHarness) -> None:
        poison = a_failed_provision(attempts=RULES.max_attempts, version=9)
        await harness.put(poison)
        async with harness.store.begin() as work:
            locked = await work.lock(PROVISION_ID)
            assert locked is not None
            requeued = locked.requeued(now=LATER)
            assert await work.requeue(requeued)
            await work.commit()
        assert (await harness.stored()).provision(PROVISION_ID) == requeued

    async def test_requeue_of_a_row_that_moved_writes_nothing(self, harness: ProvisioningHarness) -> None:
        await harness.put(a_failed_provision(version=3))
        async with harness.store.begin() as work:
            assert not await work.requeue(a_failed_provision(version=1).requeued(now=LATER))
            await work.commit()
        assert (await harness.stored()).provision(PROVISION_ID).version == 3
