"""Intents of new deals, and of deals that somebody else has, or is about to store."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from attrs import evolve
from messenger_jobs.application.ports.errors import ChatAlreadyExists, DataRejected, RowRolledBack
from messenger_jobs.domain.chat import Member
from messenger_jobs.domain.deal_chat_provision import DealChatProvision
from messenger_jobs.domain.provisioning import ProvisionSnapshot

from tests.contract.provisioning_harness import (
    AS_OF,
    ProvisioningContract,
    ProvisioningHarness,
    a_new_provision,
    message_of,
    new_id,
    provisioned,
    refused,
    sorted_members,
    unordered,
)
from tests.support.builders import (
    BUYER,
    PROVISION_ID,
    RULES,
    SELLER,
    a_chat,
    a_failed_provision,
    a_member,
    a_participant,
    a_provision,
)


def another_of_the_deal() -> DealChatProvision:
    """What a second message about the deal of `a_provision` would store."""
    return evolve(a_provision(title="Flat 13", members=(a_member(SELLER, "Agent"),)), id=new_id())


class Intents(ProvisioningContract):
    """What becomes of an intent, whoever else is at work on the deal."""

    async def test_new_intent_is_stored_with_its_members_by_the_commit(
        self, harness: ProvisioningHarness
    ) -> None:
        row = a_new_provision()
        async with harness.store.begin() as work:
            intent = await work.intend(row)
            assert intent.is_new
            assert intent.seen == ProvisionSnapshot(provision=row)
            assert (await harness.stored()).provisions == []
            await work.commit()
        assert (await harness.stored()).provisions == [sorted_members(row)]
        await harness.assert_nothing_left()

    async def test_intent_without_members_or_title_can_be_stored(self, harness: ProvisioningHarness) -> None:
        row = a_provision(title="", members=())
        async with harness.store.begin() as work:
            assert (await work.intend(row)).is_new
            await work.commit()
        assert (await harness.stored()).provisions == [row]

    async def test_intent_and_attempt_are_one_transaction(self, harness: ProvisioningHarness) -> None:
        row = a_new_provision()
        async with harness.store.begin() as work:
            seen = (await work.intend(row)).seen
            verdict = provisioned(seen)
            async with work.savepoint():
                assert await work.settle(seen, verdict)
            assert await work.outbox.add(message_of(verdict))
            await work.commit()
        stored = await harness.stored()
        assert stored.provision(row.id) == sorted_members(verdict.provision)
        chat = stored.chat_of(row.deal_id)
        assert chat is not None
        assert {(one.user_id, one.role) for one in stored.participants_of(chat.id)} == {
            (member.user_id, member.role) for member in row.members
        }
        assert len(stored.messages_about(row.deal_id)) == 1

    async def test_leaving_without_commit_leaves_no_intent(self, harness: ProvisioningHarness) -> None:
        async with harness.store.begin() as work:
            await work.intend(a_provision())
        stored = await harness.stored()
        assert stored.provisions == []
        await harness.assert_nothing_left()

    async def test_attempt_that_is_undone_leaves_the_intent(self, harness: ProvisioningHarness) -> None:
        """A refusal is written after the half-made chat is gone."""
        row = a_new_provision()
        async with harness.store.begin() as work:
            seen = (await work.intend(row)).seen
            with suppress(LookupError):
                async with work.savepoint():
                    assert await work.settle(seen, provisioned(seen))
                    raise LookupError
            assert await work.settle(seen, refused(seen))
            await work.commit()
        stored = await harness.stored()
        assert (stored.chats, stored.participants, stored.feed) == ([], [], [])
        assert stored.provision(row.id) == sorted_members(refused(seen).provision)

    @pytest.mark.parametrize(
        "known",
        [
            pytest.param(a_provision(), id="never tried"),
            pytest.param(a_failed_provision(attempts=3, version=3), id="failed"),
            pytest.param(a_failed_provision(attempts=RULES.max_attempts, version=9), id="used up"),
        ],
    )
    async def test_known_intent_stays_as_it_is_and_is_seen(
        self, harness: ProvisioningHarness, known: DealChatProvision
    ) -> None:
        await harness.put(known)
        async with harness.store.begin() as work:
            intent = await work.intend(another_of_the_deal())
            await work.commit()
        assert not intent.is_new
        assert unordered(intent.seen) == unordered(ProvisionSnapshot(provision=known))
        assert (await harness.stored()).provisions == [sorted_members(known)]

    async def test_known_intent_is_seen_with_its_chat(self, harness: ProvisioningHarness) -> None:
        await harness.put(a_provision(), a_chat(), a_participant(BUYER))
        async with harness.store.begin() as work:
            seen = (await work.intend(another_of_the_deal())).seen
        assert (seen.chat, seen.participants) == (a_chat(), (a_participant(BUYER),))

    async def test_known_intent_is_locked(self, harness: ProvisioningHarness) -> None:
        await harness.put(a_provision())
        async with harness.store.begin() as work, harness.other.begin() as other:
            await work.intend(another_of_the_deal())
            assert await other.claim(PROVISION_ID, as_of=AS_OF, rules=RULES) is None

    async def test_chat_of_a_new_intents_deal_is_noticed_when_the_attempt_is_written(
        self, harness: ProvisioningHarness
    ) -> None:
        await harness.put(a_chat(), a_participant(BUYER))
        async with harness.store.begin() as work:
            seen = (await work.intend(a_provision())).seen
            with pytest.raises(ChatAlreadyExists):
                async with work.savepoint():
                    await work.settle(seen, provisioned(seen))
            seen = await work.refresh(seen)
            assert (seen.chat, seen.participants) == (a_chat(), (a_participant(BUYER),))
            assert await work.settle(seen, provisioned(seen))
            await work.commit()
        assert (await harness.stored()).chats == [a_chat()]

    async def test_second_of_two_waits_for_the_first_and_sees_its_row(
        self, harness: ProvisioningHarness
    ) -> None:
        async with harness.store.begin() as first, harness.other.begin() as second:
            seen = (await first.intend(a_provision())).seen
            waiting = asyncio.create_task(second.intend(another_of_the_deal()))
            await harness.until_blocked()
            verdict = provisioned(seen)
            assert await first.settle(seen, verdict)
            await first.commit()
            intent = await waiting
        assert not intent.is_new
        assert intent.seen.provision.version == 1
        assert sorted_members(intent.seen.provision) == sorted_members(verdict.provision)
        assert intent.seen.chat is not None
        assert [row.id for row in (await harness.stored()).provisions] == [PROVISION_ID]
        await harness.assert_nothing_left()

    async def test_second_of_two_goes_first_when_the_first_rolls_back(
        self, harness: ProvisioningHarness
    ) -> None:
        late = another_of_the_deal()
        async with harness.other.begin() as second:
            async with harness.store.begin() as first:
                await first.intend(a_provision())
                waiting = asyncio.create_task(second.intend(late))
                await harness.until_blocked()
            assert (await waiting).is_new
            await second.commit()
        assert (await harness.stored()).provisions == [sorted_members(late)]

    async def test_too_long_a_wait_for_the_first_rolls_the_second_back(
        self, harness: ProvisioningHarness
    ) -> None:
        async with harness.store.begin() as first:
            await first.intend(a_provision())
            async with harness.other.begin() as second:
                waiting = asyncio.create_task(second.intend(another_of_the_deal()))
                await harness.until_blocked()
                await harness.pass_lock_timeout()
                with pytest.raises(RowRolledBack) as failure:
                    await waiting
                assert failure.value.code == "55P03"
            await first.commit()
        assert [row.id for row in (await harness.stored()).provisions] == [PROVISION_ID]
        await harness.assert_nothing_left()

    async def test_known_row_that_somebody_has_locked_is_waited_for(
        self, harness: ProvisioningHarness
    ) -> None:
        await harness.put(a_provision())
        async with harness.store.begin() as work:
            async with harness.writing(a_failed_provision(version=1)):
                waiting = asyncio.create_task(work.intend(another_of_the_deal()))
                await harness.until_blocked()
            assert (await waiting).seen.provision.version == 1

    async def test_cancelled_wait_leaves_nothing(self, harness: ProvisioningHarness) -> None:
        async def wait() -> None:
            async with harness.other.begin() as second:
                await second.intend(another_of_the_deal())

        async with harness.store.begin() as first:
            await first.intend(a_provision())
            waiting = asyncio.create_task(wait())
            await harness.until_blocked()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        await harness.assert_nothing_left()
        assert (await harness.stored()).provisions == []

    @pytest.mark.parametrize("is_known", [False, True], ids=["new", "known"])
    @pytest.mark.parametrize(
        "row",
        [
            pytest.param(a_provision(title="x" * 257), id="long title"),
            pytest.param(a_provision(title="a\0b"), id="NUL in the title"),
            pytest.param(a_provision(title="a\ud800b"), id="lone surrogate in the title"),
            pytest.param(a_provision(members=(a_member(role="a\0b"),)), id="NUL in a role"),
            pytest.param(a_provision(members=(a_member(role="\ud800"),)), id="lone surrogate in a role"),
        ],
    )
    async def test_what_cannot_be_stored_is_rejected(
        self, harness: ProvisioningHarness, row: DealChatProvision, *, is_known: bool
    ) -> None:
        known = [a_provision(title="known")] if is_known else []
        await harness.put(*known)
        async with harness.store.begin() as work:
            with pytest.raises(DataRejected) as failure:
                await work.intend(evolve(row, id=new_id()))
        assert failure.value.code.startswith("22")
        assert (await harness.stored()).provisions == [sorted_members(one) for one in known]
        await harness.assert_nothing_left()

    async def test_somebody_twice_is_rejected(self, harness: ProvisioningHarness) -> None:
        twice = (Member(user_id=BUYER, role="Buyer"), Member(user_id=BUYER, role="Seller"))
        async with harness.store.begin() as work:
            with pytest.raises(DataRejected) as failure:
                await work.intend(a_provision(members=twice))
        assert failure.value.code == "23505"
        assert (await harness.stored()).provisions == []

    async def test_intents_of_different_deals_do_not_wait_for_each_other(
        self, harness: ProvisioningHarness
    ) -> None:
        rows = a_new_provision(), a_new_provision()
        async with harness.store.begin() as first, harness.other.begin() as second:
            async with asyncio.timeout(30):
                assert (await first.intend(rows[0])).is_new
                assert (await second.intend(rows[1])).is_new
            await second.commit()
            await first.commit()
        assert len((await harness.stored()).provisions) == 2
