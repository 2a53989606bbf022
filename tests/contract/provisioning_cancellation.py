"""Cancellation at every single await: all or nothing, and nothing left behind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, get_args

import pytest
from messenger_jobs.application.ports.provisioning import ProvisioningStore
from messenger_jobs.domain.deal_chat_provision import DealChatProvision

from tests.contract.provisioning_harness import (
    AS_OF,
    LATER,
    ProvisioningContract,
    ProvisioningHarness,
    Stored,
    a_new_provision,
    message_of,
    provisioned,
    read,
    refused,
)
from tests.support.builders import RULES
from tests.support.interruption import Moment, interrupt

Work = Callable[[ProvisioningStore, DealChatProvision], Coroutine[Any, Any, object]]


async def read_everything(store: ProvisioningStore, provision: DealChatProvision) -> None:
    del provision
    await store.candidates(as_of=AS_OF, after=None, limit=100, rules=RULES)
    await store.backlog(as_of=AS_OF, rules=RULES)
    await store.poison_ids(rules=RULES)


async def settle_in_one_statement(store: ProvisioningStore, provision: DealChatProvision) -> None:
    seen = await read(store, provision)
    verdict = provisioned(seen)
    await store.settle(seen, verdict, message_of(verdict), as_of=AS_OF, rules=RULES)


async def settle_in_a_unit(store: ProvisioningStore, provision: DealChatProvision) -> None:
    async with store.begin() as work:
        seen = await work.claim(provision.id, as_of=AS_OF, rules=RULES)
        assert seen is not None
        seen = await work.refresh(seen)
        verdict = provisioned(seen)
        async with work.savepoint():
            await work.settle(seen, verdict)
        await work.outbox.add(message_of(verdict))
        await work.commit()


async def refuse_after_a_failed_savepoint(store: ProvisioningStore, provision: DealChatProvision) -> None:
    async with store.begin() as work:
        seen = await work.claim(provision.id, as_of=AS_OF, rules=RULES)
        assert seen is not None
        try:
            async with work.savepoint():
                await work.settle(seen, provisioned(seen))
                raise LookupError
        except LookupError:
            await work.settle(seen, refused(seen))
        await work.commit()


async def requeue(store: ProvisioningStore, provision: DealChatProvision) -> None:
    async with store.begin() as work:
        locked = await work.lock(provision.id)
        assert locked is not None
        await work.requeue(locked.requeued(now=LATER))
        await work.commit()


async def roll_back(store: ProvisioningStore, provision: DealChatProvision) -> None:
    async with store.begin() as work:
        seen = await work.claim(provision.id, as_of=AS_OF, rules=RULES)
        assert seen is not None
        await work.settle(seen, provisioned(seen))


def nothing_happened(stored: Stored, before: DealChatProvision) -> bool:
    after = stored.provision(before.id)
    return (
        after.version == before.version
        and stored.chat_of(before.deal_id) is None
        and stored.messages_about(before.deal_id) == []
    )


def provisioned_whole(stored: Stored, before: DealChatProvision) -> bool:
    after, chat = stored.provision(before.id), stored.chat_of(before.deal_id)
    return (
        chat is not None
        and after.version == before.version + 1
        and after.chat_id == chat.id
        and len(stored.participants_of(chat.id)) == len(before.members)
        and len([entry for entry in stored.feed if entry.chat_id == chat.id]) == 1
        and len(stored.messages_about(before.deal_id)) == 1
    )


def counted(stored: Stored, before: DealChatProvision) -> bool:
    return (
        stored.provision(before.id).version == before.version + 1 and stored.chat_of(before.deal_id) is None
    )


def nothing_may_happen(stored: Stored, before: DealChatProvision) -> bool:
    del stored, before
    return False


class Cancellation(ProvisioningContract):
    """Whatever is cancelled, wherever it waits."""

    @pytest.mark.parametrize("moment", get_args(Moment))
    @pytest.mark.parametrize(
        ("work", "done"),
        [
            (read_everything, nothing_may_happen),
            (settle_in_one_statement, provisioned_whole),
            (settle_in_a_unit, provisioned_whole),
            (refuse_after_a_failed_savepoint, counted),
            (requeue, counted),
            (roll_back, nothing_may_happen),
        ],
        ids=lambda function: function.__name__,
    )
    async def test_cancelled_anywhere_it_is_done_whole_or_not_at_all_and_leaves_nothing(
        self,
        harness: ProvisioningHarness,
        work: Work,
        done: Callable[[Stored, DealChatProvision], bool],
        moment: Moment,
    ) -> None:
        async def cancelled_at(step: int) -> bool:
            provision = a_new_provision()
            await harness.put(provision)
            reached = await interrupt(work(harness.store, provision), at=step, moment=moment)
            await harness.assert_nothing_left()
            stored = await harness.stored()
            assert nothing_happened(stored, provision) or done(stored, provision), f"cancelled at step {step}"
            return reached

        assert await at_every_step(cancelled_at) > 1


async def at_every_step(cancelled_at: Callable[[int], Awaitable[bool]], *, most: int = 500) -> int:
    """Cancel at step 1, 2, ... until there is none; how many there were."""
    for step in range(1, most):
        if not await cancelled_at(step):
            return step - 1
    raise AssertionError(f"the work has more than {most} steps")
