"""What every `Outbox` must show, within units of work that anybody may open."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, get_args

import pytest
from attrs import evolve
from messenger_jobs.application.ports.errors import DataRejected, RowRolledBack
from messenger_jobs.application.ports.outbox import OutboxMessage

from tests.contract.provisioning_cancellation import at_every_step
from tests.contract.provisioning_harness import ProvisioningContract, ProvisioningHarness, new_id
from tests.support.builders import DEAL_ID, NOW
from tests.support.interruption import Moment, interrupt


def a_message(*, dedupe_key: str | None = None, **changes: Any) -> OutboxMessage:
    message = OutboxMessage(
        event_id=new_id(),
        topic="pin.messenger.deal-chat-status-changed.v1",
        message_key=str(DEAL_ID),
        aggregate_type="DealChatProvision",
        aggregate_id=str(DEAL_ID),
        event_type="DealChatStatusChanged",
        contract_version=1,
        payload={"dealId": str(DEAL_ID), "status": "Ready"},
        headers={"event-type": "DealChatStatusChanged"},
        occurred_at=NOW,
        dedupe_key=dedupe_key,
    )
    return evolve(message, **changes)


INVALID: dict[str, tuple[dict[str, Any], str]] = {
    "topic empty": ({"topic": ""}, "23514"),
    "topic too long": ({"topic": "t" * 250}, "22001"),
    "key too long": ({"message_key": "k" * 257}, "22001"),
    "aggregate type empty": ({"aggregate_type": ""}, "23514"),
    "aggregate id too long": ({"aggregate_id": "i" * 65}, "22001"),
    "event type empty": ({"event_type": ""}, "23514"),
    "contract version zero": ({"contract_version": 0}, "23514"),
    "contract version beyond an integer": ({"contract_version": 2**31}, "22003"),
    "dedupe key too long": ({"dedupe_key": "d" * 257}, "22001"),
    "payload with a NUL": ({"payload": {"title": "a\0b"}}, "22P05"),
    "payload with a NUL in a name": ({"payload": {"a\0b": 1}}, "22P05"),
    "payload with half a character": ({"payload": {"titles": ["\ud83d"]}}, "22P02"),
    "payload with what is no number": ({"payload": {"size": float("nan")}}, "22P02"),
    "headers with a NUL": ({"headers": {"event-type": "\0"}}, "22P05"),
    "key with half a character": ({"message_key": "\udc00"}, "22021"),
    "key with a NUL": ({"message_key": "\0"}, "22"),
}


async def add(harness: ProvisioningHarness, *messages: OutboxMessage) -> list[bool]:
    """Adds them in a unit of work of their own, and commits."""
    async with harness.store.begin() as work:
        added = [await work.outbox.add(message) for message in messages]
        await work.commit()
    return added


class OutboxContract(ProvisioningContract):
    """A message exists exactly when its transaction commits, and once."""

    async def test_message_is_there_after_the_commit_as_it_was_given(
        self, harness: ProvisioningHarness
    ) -> None:
        message = a_message(
            payload={
                "text": "Ж \U0001f600 \\u0000 NaN",
                "list": [1, 1.5, True, None, {"n": -(2**60)}],
                "": {},
            },
            headers={"correlation-id": "x", "empty": ""},
            dedupe_key="once",
        )
        async with harness.store.begin() as work:
            assert await work.outbox.add(message)
            assert (await harness.stored()).messages == []
            await work.commit()
        assert (await harness.stored()).messages == [message]

    async def test_later_changes_of_the_callers_are_not_stored(self, harness: ProvisioningHarness) -> None:
        payload: dict[str, Any] = {"list": [1]}
        async with harness.store.begin() as work:
            assert await work.outbox.add(a_message(payload=payload))
            payload["list"].append(2)
            await work.commit()
        (stored,) = (await harness.stored()).messages
        assert stored.payload == {"list": [1]}

    async def test_message_is_gone_without_a_commit(self, harness: ProvisioningHarness) -> None:
        async with harness.store.begin() as work:
            assert await work.outbox.add(a_message())
        assert (await harness.stored()).messages == []
        await harness.assert_nothing_left()

    async def test_message_is_gone_with_its_savepoint(self, harness: ProvisioningHarness) -> None:
        kept = a_message()
        async with harness.store.begin() as work:
            with suppress(LookupError):
                async with work.savepoint():
                    assert await work.outbox.add(a_message())
                    raise LookupError
            assert await work.outbox.add(kept)
            await work.commit()
        assert (await harness.stored()).messages == [kept]

    async def test_messages_keep_the_order_of_one_transaction(self, harness: ProvisioningHarness) -> None:
        messages = [a_message() for _ in range(5)]
        await add(harness, *messages)
        assert (await harness.stored()).messages == messages

    async def test_dedupe_key_is_stored_once(self, harness: ProvisioningHarness) -> None:
        first, again, other = (a_message(dedupe_key=key) for key in ("a", "a", "b"))
        assert await add(harness, first, again, other, first) == [True, False, True, False]
        assert await add(harness, again, first) == [False, False]
        assert (await harness.stored()).messages == [first, other]

    async def test_messages_without_a_dedupe_key_are_never_the_same(
        self, harness: ProvisioningHarness
    ) -> None:
        assert await add(harness, a_message(), a_message()) == [True, True]

    async def test_dedupe_key_is_free_again_after_a_rollback(self, harness: ProvisioningHarness) -> None:
        async with harness.store.begin() as work:
            assert await work.outbox.add(a_message(dedupe_key="a"))
        assert await add(harness, a_message(dedupe_key="a")) == [True]

    async def test_dedupe_key_of_an_open_transaction_is_waited_for_and_lost_to_its_commit(
        self, harness: ProvisioningHarness
    ) -> None:
        first = a_message(dedupe_key="a")
        async with harness.other.begin() as work:
            assert await work.outbox.add(first)
            second = asyncio.create_task(add(harness, a_message(dedupe_key="a")))
            await harness.until_blocked()
            await work.commit()
        assert await second == [False]
        assert (await harness.stored()).messages == [first]

    async def test_dedupe_key_of_an_open_transaction_is_waited_for_and_won_by_its_rollback(
        self, harness: ProvisioningHarness
    ) -> None:
        message = a_message(dedupe_key="a")
        async with harness.other.begin() as work:
            assert await work.outbox.add(a_message(dedupe_key="a"))
            second = asyncio.create_task(add(harness, message))
            await harness.until_blocked()
        assert await second == [True]
        assert (await harness.stored()).messages == [message]

    async def test_who_finds_a_dedupe_key_taken_holds_up_nobody(self, harness: ProvisioningHarness) -> None:
        await add(harness, a_message(dedupe_key="a"))
        async with harness.other.begin() as work:
            assert not await work.outbox.add(a_message(dedupe_key="a"))
            assert await add(harness, a_message(dedupe_key="a")) == [False]

    async def test_too_long_a_wait_for_a_dedupe_key_rolls_back(self, harness: ProvisioningHarness) -> None:
        async with harness.other.begin() as work:
            assert await work.outbox.add(a_message(dedupe_key="a"))
            second = asyncio.create_task(add(harness, a_message(dedupe_key="a")))
            await harness.until_blocked()
            await harness.pass_lock_timeout()
            with pytest.raises(RowRolledBack):
                await second

    async def test_repeated_event_id_is_rejected(self, harness: ProvisioningHarness) -> None:
        message = a_message()
        await add(harness, message)
        for repeated in (message, evolve(message, dedupe_key="new")):
            with pytest.raises(DataRejected) as rejection:
                await add(harness, repeated)
            assert rejection.value.code == "23505"
        assert (await harness.stored()).messages == [message]

    @pytest.mark.parametrize("fault", INVALID)
    async def test_values_that_the_database_refuses_are_rejected(
        self, harness: ProvisioningHarness, fault: str
    ) -> None:
        changes, sqlstate = INVALID[fault]
        with pytest.raises(DataRejected) as rejection:
            await add(harness, a_message(**changes))
        assert rejection.value.code.startswith(sqlstate)
        assert (await harness.stored()).messages == []
        await harness.assert_nothing_left()

    async def test_largest_values_are_stored(self, harness: ProvisioningHarness) -> None:
        message = a_message(
            topic="t" * 249,
            message_key="Ж" * 256,
            aggregate_type="T" * 64,
            aggregate_id="i" * 64,
            event_type="E" * 64,
            contract_version=2**31 - 1,
            dedupe_key="d" * 256,
            payload={"long": "x" * 100_000},
        )
        await add(harness, message)
        assert (await harness.stored()).messages == [message]

    @pytest.mark.parametrize("moment", get_args(Moment))
    async def test_cancelled_anywhere_the_message_is_there_or_not_and_nothing_is_left(
        self, harness: ProvisioningHarness, moment: Moment
    ) -> None:
        async def cancelled_at(step: int) -> bool:
            message = a_message(dedupe_key=f"{moment} {step}")
            reached = await interrupt(add(harness, message), at=step, moment=moment)
            await harness.assert_nothing_left()
            stored = [
                row for row in (await harness.stored()).messages if row.dedupe_key == message.dedupe_key
            ]
            assert stored in ([], [message])
            return reached

        assert await at_every_step(cancelled_at) > 1
