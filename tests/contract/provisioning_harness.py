"""What an adapter's test gives to the contract of `ProvisioningStore`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final
from uuid import UUID

import pytest
from attrs import evolve, frozen
from messenger_jobs.application.integration_events import deal_chat_status_changed
from messenger_jobs.application.ports.outbox import OutboxMessage
from messenger_jobs.application.ports.provisioning import ProvisioningStore
from messenger_jobs.domain.chat import Chat, ChatEvent, Participant
from messenger_jobs.domain.deal_chat_provision import DealChatProvision
from messenger_jobs.domain.errors import AttemptError
from messenger_jobs.domain.provisioning import (
    Provisioned,
    ProvisionSnapshot,
    Refused,
    Verdict,
    decide,
    refuse,
)

from tests.contract.store_harness import StoreHarness
from tests.support.builders import NOW, RULES, a_provision, ids_from, some_id

Thing = DealChatProvision | Chat | Participant

AS_OF: Final = NOW
LATER: Final = NOW + timedelta(seconds=7, microseconds=1)
"""When attempts are made, some time after their cycle has begun."""

new_id: Final = ids_from(5_000_000)
"""Never the same id twice, also over tests that share a database."""


@frozen(kw_only=True)
class Stored:
    """Everything that is committed: rows by id, messages in the order of their ids."""

    provisions: Sequence[DealChatProvision]
    chats: Sequence[Chat]
    participants: Sequence[Participant]
    feed: Sequence[ChatEvent]
    messages: Sequence[OutboxMessage]

    def provision(self, provision_id: UUID) -> DealChatProvision:
        return next(row for row in self.provisions if row.id == provision_id)

    def chat_of(self, deal_id: UUID) -> Chat | None:
        chats = [row for row in self.chats if row.deal_id == deal_id]
        assert len(chats) <= 1, "two chats for one deal"
        return chats[0] if chats else None

    def participants_of(self, chat_id: UUID) -> list[Participant]:
        return [row for row in self.participants if row.chat_id == chat_id]

    def messages_about(self, deal_id: UUID) -> list[OutboxMessage]:
        return [message for message in self.messages if message.message_key == str(deal_id)]


class ProvisioningHarness(StoreHarness[Thing, Stored]):
    """See `StoreHarness`; provisions have their members by user."""

    store: ProvisioningStore
    other: ProvisioningStore


class ProvisioningContract:
    """Base of the parts of the contract: an adapter's subclass overrides the fixture `harness`."""

    @pytest.fixture
    async def harness(self) -> ProvisioningHarness:
        raise NotImplementedError("an adapter's subclass says what its harness is")


def a_new_provision(*, number: int | None = None) -> DealChatProvision:
    """A provision that is due, of a deal of its own."""
    own = some_id(new_id().int if number is None else number)
    return a_provision(id=own, deal_id=some_id(own.int + 10_000_000))


async def read(store: ProvisioningStore, provision: DealChatProvision) -> ProvisionSnapshot:
    """What a cycle reads ahead of this row; it must be due at `AS_OF`."""
    rows = await store.candidates(as_of=AS_OF, after=None, limit=10_000, rules=RULES)
    return next(row for row in rows if row.provision.id == provision.id)


def provisioned(seen: ProvisionSnapshot) -> Provisioned:
    verdict = decide(seen, now=LATER, spread=0.0, rules=RULES, new_id=new_id)
    assert isinstance(verdict, Provisioned)
    return verdict


def refused(seen: ProvisionSnapshot) -> Refused:
    return refuse(
        seen.provision, AttemptError("ProvisionGuard", "NO_MEMBERS"), now=LATER, spread=0.0, rules=RULES
    )


def message_of(verdict: Verdict) -> OutboxMessage:
    assert verdict.event is not None
    return deal_chat_status_changed(verdict.event, event_id=new_id(), correlation_id=some_id(77))


def sorted_members(provision: DealChatProvision) -> DealChatProvision:
    return evolve(provision, members=tuple(sorted(provision.members, key=lambda member: member.user_id)))


def unordered(seen: ProvisionSnapshot) -> ProvisionSnapshot:
    """The snapshot without the order of its parts, which no adapter promises."""
    return evolve(
        seen,
        provision=sorted_members(seen.provision),
        participants=tuple(sorted(seen.participants, key=lambda participant: participant.user_id)),
    )
