"""What settling an attempt writes, and when it refuses to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from attrs import evolve
from messenger_jobs.application.ports.errors import ChatAlreadyExists, DataRejected
from messenger_jobs.application.ports.provisioning import ProvisioningStore
from messenger_jobs.domain.chat import Chat
from messenger_jobs.domain.deal_chat_provision import ProvisionStatus
from messenger_jobs.domain.errors import AttemptError
from messenger_jobs.domain.provisioning import Provisioned, ProvisionSnapshot, Verdict, refuse

from tests.contract.provisioning_harness import (
    AS_OF,
    LATER,
    ProvisioningContract,
    ProvisioningHarness,
    Stored,
    message_of,
    new_id,
    provisioned,
    read,
    refused,
    sorted_members,
)
from tests.support.builders import (
    BUYER,
    CHAT_ID,
    MICROSECOND,
    PROVISION_ID,
    RULES,
    SELLER,
    a_chat,
    a_failed_provision,
    a_member,
    a_participant,
    a_provision,
    some_id,
)

STRANGER = some_id(13)
NOTARY = some_id(14)

both_ways = pytest.mark.parametrize("way", ["one statement", "unit of work"])
"""A whole attempt by `ProvisioningStore.settle`, or by a unit of work that has the row locked."""


async def settle(store: ProvisioningStore, way: str, seen: ProvisionSnapshot, verdict: Verdict) -> bool:
    message = None if verdict.event is None else message_of(verdict)
    if way == "one statement":
        return await store.settle(seen, verdict, message, as_of=AS_OF, rules=RULES)
    async with store.begin() as work:
        assert await work.lock(seen.provision.id) is not None
        settled = await work.settle(seen, verdict)
        if settled and message is not None:
            assert await work.outbox.add(message)
        await work.commit()  # in any case: what is not settled has written nothing
    return settled


def title(text: str) -> Callable[[Provisioned], Provisioned]:
    return new_chat(lambda chat: evolve(chat, title=text))


def new_chat(change: Callable[[Chat], Chat]) -> Callable[[Provisioned], Provisioned]:
    def changed(verdict: Provisioned) -> Provisioned:
        assert verdict.new_chat is not None
        return evolve(verdict, new_chat=evolve(verdict.new_chat, chat=change(verdict.new_chat.chat)))

    return changed


def feed(**changes: Any) -> Callable[[Provisioned], Provisioned]:
    def changed(verdict: Provisioned) -> Provisioned:
        assert verdict.new_chat is not None
        entry = evolve(verdict.new_chat.feed_entry, **changes)
        return evolve(verdict, new_chat=evolve(verdict.new_chat, feed_entry=entry))

    return changed


def role(text: str) -> Callable[[Provisioned], Provisioned]:
    return lambda verdict: evolve(
        verdict, participants=(evolve(verdict.participants[0], role=text), *verdict.participants[1:])
    )


def schedule(**changes: Any) -> Callable[[Provisioned], Provisioned]:
    return lambda verdict: evolve(
        verdict,
        provision=evolve(verdict.provision, schedule=evolve(verdict.provision.schedule, **changes)),
    )


def somewhere_else(verdict: Provisioned) -> Provisioned:
    nowhere = new_id()
    return evolve(
        verdict,
        new_chat=None,
        chat_id=nowhere,
        participants=(),
        provision=evolve(verdict.provision, chat_id=nowhere),
    )


INVALID = {
    "title too long": (title("x" * 257), "22001"),
    "title empty": (title(""), "23514"),
    "title with a NUL": (title("x\0"), "22"),
    "title with half a character": (title("\ud83d"), "22021"),
    "kind empty": (new_chat(lambda chat: evolve(chat, kind="")), "23514"),
    "kind too long": (new_chat(lambda chat: evolve(chat, kind="x" * 17)), "22001"),
    "status empty": (new_chat(lambda chat: evolve(chat, status="")), "23514"),
    "feed type empty": (feed(type=""), "23514"),
    "feed type too long": (feed(type="x" * 65), "22001"),
    "feed actor empty": (feed(actor=""), "23514"),
    "feed data with a NUL": (feed(data={"dealId": "\0"}), "22P05"),
    "feed data with half a character": (feed(data={"dealId": "\udc00"}), "22P02"),
    "role empty": (role(""), "23514"),
    "role too long": (role("Ж" * 33), "22001"),
    "last error too long": (schedule(last_error="x" * 513), "22001"),
    "attempts beyond an integer": (schedule(attempts=2**31), "22003"),
    "chat that does not exist": (somewhere_else, "23503"),
}


class Settling(ProvisioningContract):
    """One attempt's whole outcome, or nothing of it."""

    @both_ways
    async def test_new_chat_is_written_with_everything_that_belongs_to_it(
        self, harness: ProvisioningHarness, way: str
    ) -> None:
        await harness.put(a_provision())
        seen = await read(harness.store, a_provision())
        verdict = provisioned(seen)
        assert verdict.new_chat is not None
        assert await settle(harness.store, way, seen, verdict)
        stored = await harness.stored()
        assert [message.payload["status"] for message in stored.messages] == ["Ready"]
        assert evolve(stored, messages=()) == Stored(
            provisions=[sorted_members(verdict.provision)],
            chats=[verdict.new_chat.chat],
            participants=sorted(verdict.participants, key=lambda row: row.id),
            feed=[verdict.new_chat.feed_entry],
            messages=(),
        )
        await harness.assert_nothing_left()

    async def test_message_is_stored_as_it_was_given(self, harness: ProvisioningHarness) -> None:
        await harness.put(a_provision())
        seen = await read(harness.store, a_provision())
        verdict = provisioned(seen)
        message = message_of(verdict)
        assert await harness.store.settle(seen, verdict, message, as_of=AS_OF, rules=RULES)
        assert (await harness.stored()).messages == [message]

    @both_ways
    async def test_participants_of_a_present_chat_are_added_and_brought_back_and_never_removed(
        self, harness: ProvisioningHarness, way: str
    ) -> None:
        wanted = [a_member(BUYER, "Buyer"), a_member(SELLER, "Seller"), a_member(NOTARY, "Notary")]
        left = a_participant(BUYER, "Guest", left_at=AS_OF - timedelta(hours=1))
        present, stranger = a_participant(SELLER, "Broker"), a_participant(STRANGER, "Friend")
        await harness.put(a_provision(members=wanted), a_chat(), left, present, stranger)
        seen = await read(harness.store, a_provision())
        assert await settle(harness.store, way, seen, provisioned(seen))
        stored = await harness.stored()
        by_user = {row.user_id: row for row in stored.participants}
        assert by_user.pop(BUYER) == evolve(left, role="Buyer", left_at=None)
        assert by_user.pop(SELLER) == present
        assert by_user.pop(STRANGER) == stranger
        added = by_user.pop(NOTARY)
        assert (added.chat_id, added.role, added.joined_at, added.left_at) == (CHAT_ID, "Notary", LATER, None)
        assert by_user == {}
        assert stored.chats == [a_chat()]
        assert stored.feed == []

    @both_ways
    async def test_participant_who_came_since_the_reading_stays_as_they_are(
        self, harness: ProvisioningHarness, way: str
    ) -> None:
        await harness.put(a_provision(), a_chat())
        seen = await read(harness.store, a_provision())
        came = a_participant(BUYER, "Owner")
        await harness.put(came)
        assert await settle(harness.store, way, seen, provisioned(seen))
        by_user = {row.user_id: row for row in (await harness.stored()).participants}
        assert by_user[BUYER] == came
        assert by_user[SELLER].role == "Seller"

    @both_ways
    async def test_participant_who_came_and_went_since_the_reading_is_brought_back(
        self, harness: ProvisioningHarness, way: str
    ) -> None:
        await harness.put(a_provision(), a_chat())
        seen = await read(harness.store, a_provision())
        went = a_participant(BUYER, "Owner", left_at=AS_OF)
        await harness.put(went)
        assert await settle(harness.store, way, seen, provisioned(seen))
        by_user = {row.user_id: row for row in (await harness.stored()).participants}
        assert by_user[BUYER] == evolve(went, role="Buyer", left_at=None)

    @both_ways
    async def test_refusal_writes_the_row_and_nothing_else(
        self, harness: ProvisioningHarness, way: str
    ) -> None:
        await harness.put(a_provision(), a_chat(kind="Group"), a_participant())
        seen = await read(harness.store, a_provision())
        verdict = refused(seen)
        assert await settle(harness.store, way, seen, verdict)
        assert await harness.stored() == Stored(
            provisions=[sorted_members(verdict.provision)],
            chats=[a_chat(kind="Group")],
            participants=[a_participant()],
            feed=[],
            messages=[],
        )

    @both_ways
    async def test_last_refusal_is_told(self, harness: ProvisioningHarness, way: str) -> None:
        await harness.put(a_failed_provision(attempts=RULES.max_attempts - 1))
        seen = await read(harness.store, a_failed_provision())
        assert await settle(harness.store, way, seen, refused(seen))
        (message,) = (await harness.stored()).messages
        assert message.payload["status"] == "Failed"

    @both_ways
    async def test_row_that_moved_on_is_not_written(self, harness: ProvisioningHarness, way: str) -> None:
        await harness.put(a_provision())
        seen = await read(harness.store, a_provision())
        await harness.put(a_failed_provision(version=1))
        before = await harness.stored()
        assert not await settle(harness.store, way, seen, provisioned(seen))
        assert await harness.stored() == before
        await harness.assert_nothing_left()

    @both_ways
    @pytest.mark.parametrize("moved", [{"version": 1}, {"kind": "Group"}, {"status": "Archived"}], ids=str)
    async def test_nothing_is_written_when_the_chat_moved(
        self, harness: ProvisioningHarness, way: str, moved: dict[str, Any]
    ) -> None:
        await harness.put(a_provision(), a_chat())
        seen = await read(harness.store, a_provision())
        await harness.put(evolve(a_chat(), **moved))
        before = await harness.stored()
        assert not await settle(harness.store, way, seen, provisioned(seen))
        assert not await settle(harness.store, way, seen, refused(seen))
        assert await harness.stored() == before

    @both_ways
    async def test_nothing_is_written_when_the_chat_is_being_archived(
        self, harness: ProvisioningHarness, way: str
    ) -> None:
        await harness.put(a_provision(), a_chat())
        seen = await read(harness.store, a_provision())
        async with harness.writing(archived := evolve(a_chat(), status="Archived", version=1)):
            settling = asyncio.create_task(settle(harness.store, way, seen, provisioned(seen)))
            await harness.until_blocked()
        assert not await settling
        stored = await harness.stored()
        assert stored.provision(PROVISION_ID).version == 0
        assert (stored.chats, stored.participants, stored.messages) == ([archived], [], [])

    @both_ways
    async def test_chat_that_is_not_archived_after_all_is_used(
        self, harness: ProvisioningHarness, way: str
    ) -> None:
        await harness.put(a_provision(), a_chat())
        seen = await read(harness.store, a_provision())
        async with harness.writing_in_vain(evolve(a_chat(), status="Archived", version=1)):
            settling = asyncio.create_task(settle(harness.store, way, seen, provisioned(seen)))
            await harness.until_blocked()
        assert await settling
        assert (await harness.stored()).provision(PROVISION_ID).status is ProvisionStatus.READY

    async def test_chat_stays_as_it_was_seen_until_the_commit(self, harness: ProvisioningHarness) -> None:
        await harness.put(a_provision(), a_chat())
        seen = await read(harness.store, a_provision())
        async with harness.other.begin() as work:
            assert await work.settle(seen, provisioned(seen))
            archiving = asyncio.create_task(harness.put(evolve(a_chat(), status="Archived", version=1)))
            await harness.until_blocked()
            assert (await harness.stored()).chats == [a_chat()]
            await work.commit()
        await archiving
        stored = await harness.stored()
        assert stored.provision(PROVISION_ID).status is ProvisionStatus.READY
        assert [chat.status for chat in stored.chats] == ["Archived"]

    async def test_row_that_is_gone_is_not_written(self, harness: ProvisioningHarness) -> None:
        seen = ProvisionSnapshot(provision=a_provision())
        assert not await settle(harness.store, "one statement", seen, provisioned(seen))
        assert (await harness.stored()).chats == []

    async def test_row_that_is_not_due_any_more_is_not_written(self, harness: ProvisioningHarness) -> None:
        await harness.put(a_provision())
        seen = await read(harness.store, a_provision())
        verdict = provisioned(seen)
        settled = await harness.store.settle(
            seen, verdict, message_of(verdict), as_of=AS_OF - MICROSECOND, rules=RULES
        )
        assert not settled
        assert (await harness.stored()).chats == []

    @both_ways
    async def test_chat_that_came_to_be_since_the_reading_is_noticed(
        self, harness: ProvisioningHarness, way: str
    ) -> None:
        await harness.put(a_provision())
        seen = await read(harness.store, a_provision())
        await harness.put(a_chat())
        before = await harness.stored()
        with suppress(ChatAlreadyExists):
            assert not await settle(harness.store, way, seen, provisioned(seen))
        assert await harness.stored() == before
        await harness.assert_nothing_left()

    @both_ways
    async def test_concurrent_creator_who_commits_wins(self, harness: ProvisioningHarness, way: str) -> None:
        await harness.put(a_provision())
        seen = await read(harness.store, a_provision())
        async with harness.writing(a_chat()):
            settling = asyncio.create_task(settle(harness.store, way, seen, provisioned(seen)))
            await harness.until_blocked()
        with pytest.raises(ChatAlreadyExists):
            await settling
        stored = await harness.stored()
        assert stored.provision(PROVISION_ID).version == 0
        assert (stored.chats, stored.participants, stored.feed, stored.messages) == ([a_chat()], [], [], [])
        await harness.assert_nothing_left()

    @both_ways
    async def test_concurrent_creator_who_rolls_back_leaves_the_chat_to_us(
        self, harness: ProvisioningHarness, way: str
    ) -> None:
        await harness.put(a_provision())
        seen = await read(harness.store, a_provision())
        verdict = provisioned(seen)
        async with harness.writing_in_vain(a_chat()):
            settling = asyncio.create_task(settle(harness.store, way, seen, verdict))
            await harness.until_blocked()
        assert await settling
        stored = await harness.stored()
        assert [chat.id for chat in stored.chats] == [verdict.chat_id]
        assert len(stored.feed) == len(stored.messages) == 1

    async def test_unit_uses_a_concurrent_creators_chat_after_its_savepoint(
        self, harness: ProvisioningHarness
    ) -> None:
        await harness.put(a_provision())
        async with harness.store.begin() as work:
            seen = await work.claim(PROVISION_ID, as_of=AS_OF, rules=RULES)
            assert seen is not None
            await harness.put(a_chat(), a_participant(BUYER, "Owner"))
            with pytest.raises(ChatAlreadyExists):
                async with work.savepoint():
                    await work.settle(seen, provisioned(seen))
            fresh = await work.refresh(seen)
            assert fresh.chat == a_chat()
            assert await work.settle(fresh, provisioned(fresh))
            await work.commit()
        stored = await harness.stored()
        assert stored.chats == [a_chat()]
        assert stored.feed == []
        assert stored.provision(PROVISION_ID).chat_id == CHAT_ID
        assert {row.user_id: row.role for row in stored.participants} == {BUYER: "Owner", SELLER: "Seller"}

    @both_ways
    async def test_participant_whom_somebody_else_is_adding_is_theirs_if_they_commit(
        self, harness: ProvisioningHarness, way: str
    ) -> None:
        await harness.put(a_provision(), a_chat())
        seen = await read(harness.store, a_provision())
        theirs = a_participant(BUYER, "Owner")
        async with harness.writing(theirs):
            settling = asyncio.create_task(settle(harness.store, way, seen, provisioned(seen)))
            await harness.until_blocked()
        assert await settling
        by_user = {row.user_id: row for row in (await harness.stored()).participants}
        assert by_user[BUYER] == theirs
        assert by_user[SELLER].role == "Seller"

    @both_ways
    async def test_participant_whom_somebody_else_is_adding_is_ours_if_they_roll_back(
        self, harness: ProvisioningHarness, way: str
    ) -> None:
        await harness.put(a_provision(), a_chat())
        seen = await read(harness.store, a_provision())
        async with harness.writing_in_vain(a_participant(BUYER, "Owner")):
            settling = asyncio.create_task(settle(harness.store, way, seen, provisioned(seen)))
            await harness.until_blocked()
        assert await settling
        roles = {row.user_id: row.role for row in (await harness.stored()).participants}
        assert roles == {BUYER: "Buyer", SELLER: "Seller"}

    @both_ways
    async def test_participant_whom_somebody_else_is_bringing_back_stays_theirs(
        self, harness: ProvisioningHarness, way: str
    ) -> None:
        left = a_participant(BUYER, "Guest", left_at=AS_OF)
        await harness.put(a_provision(), a_chat(), left)
        seen = await read(harness.store, a_provision())
        theirs = left.rejoined(role="Owner")
        async with harness.writing(theirs):
            settling = asyncio.create_task(settle(harness.store, way, seen, provisioned(seen)))
            await harness.until_blocked()
        assert await settling
        by_user = {row.user_id: row for row in (await harness.stored()).participants}
        assert by_user[BUYER] == theirs

    @both_ways
    async def test_of_two_who_decided_on_the_same_reading_one_wins(
        self, harness: ProvisioningHarness, way: str
    ) -> None:
        await harness.put(a_provision(), a_chat())
        seen = await read(harness.store, a_provision())
        results = await asyncio.gather(
            settle(harness.store, way, seen, provisioned(seen)),
            settle(harness.other, way, seen, provisioned(seen)),
        )
        assert sorted(results) == [False, True]
        stored = await harness.stored()
        assert stored.provision(PROVISION_ID).version == 1
        assert len(stored.messages) == 1

    @both_ways
    @pytest.mark.parametrize("fault", INVALID)
    async def test_values_that_the_database_refuses_are_rejected_whole(
        self, harness: ProvisioningHarness, way: str, fault: str
    ) -> None:
        change, sqlstate = INVALID[fault]
        await harness.put(a_provision())
        seen = await read(harness.store, a_provision())
        before = await harness.stored()
        with pytest.raises(DataRejected) as rejection:
            await settle(harness.store, way, seen, change(provisioned(seen)))
        assert rejection.value.code.startswith(sqlstate)
        assert await harness.stored() == before
        await harness.assert_nothing_left()

    async def test_rejection_can_be_counted_after_its_savepoint(self, harness: ProvisioningHarness) -> None:
        await harness.put(a_provision())
        async with harness.store.begin() as work:
            seen = await work.claim(PROVISION_ID, as_of=AS_OF, rules=RULES)
            assert seen is not None
            with pytest.raises(DataRejected) as rejection:
                async with work.savepoint():
                    await work.settle(seen, title("x" * 257)(provisioned(seen)))
            error = AttemptError("Postgres", rejection.value.code)
            counted = refuse(seen.provision, error, now=LATER, spread=0.0, rules=RULES)
            assert await work.settle(seen, counted)
            await work.commit()
        stored = await harness.stored()
        assert stored.provision(PROVISION_ID).schedule.last_error == "Postgres:22001"
        assert stored.chats == []

    async def test_nothing_is_written_when_the_message_is_refused(self, harness: ProvisioningHarness) -> None:
        first, second = (a_provision(id=new_id(), deal_id=new_id()) for _ in range(2))
        await harness.put(first, second)
        seen = await read(harness.store, first)
        verdict = provisioned(seen)
        message = message_of(verdict)
        assert await harness.store.settle(seen, verdict, message, as_of=AS_OF, rules=RULES)
        before = await harness.stored()
        seen = await read(harness.store, second)
        with pytest.raises(DataRejected) as rejection:
            await harness.store.settle(seen, provisioned(seen), message, as_of=AS_OF, rules=RULES)
        assert rejection.value.code == "23505"
        assert await harness.stored() == before
