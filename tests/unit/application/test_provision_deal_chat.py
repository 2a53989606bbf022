from __future__ import annotations

import pytest
from attrs import evolve
from messenger_jobs.adapters.memory.switch import Phase
from messenger_jobs.application.cycle_report import Outcome
from messenger_jobs.application.ports.errors import DataRejected, RowRolledBack
from messenger_jobs.application.provision_deal_chat import report
from messenger_jobs.domain.deal_chat_provision import ProvisionStatus
from messenger_jobs.domain.provisioning import Provisioned, ProvisionSnapshot, Refused, Verdict

from tests.support.builders import (
    BUYER,
    CHAT_ID,
    DEAL_ID,
    PROVISION_ID,
    RULES,
    SELLER,
    a_chat,
    a_failed_provision,
    a_participant,
    a_provision,
    ids_from,
    some_id,
)
from tests.unit.application.deals import RUN_ID, Deals
from tests.unit.application.traces import TRACE, Traced


@pytest.fixture
def deals() -> Deals:
    return Deals()


async def attempt_within(deals: Deals) -> Verdict:
    async with deals.store.begin() as work:
        seen = await work.claim(PROVISION_ID, as_of=deals.as_of, rules=RULES)
        assert seen is not None
        verdict = await deals.provisioning.within(work, seen, correlation_id=RUN_ID)
        await work.commit()
    return verdict


async def test_attempt_is_written_with_its_message(deals: Deals) -> None:
    deals.put(a_provision())
    assert isinstance(await attempt_within(deals), Provisioned)
    assert deals.provision.status is ProvisionStatus.READY
    assert deals.statuses_told == ["Ready"]
    assert len(deals.chats) == len(deals.feed) == 1


async def test_message_has_an_id_of_its_own_and_the_trace_of_the_attempt(deals: Deals) -> None:
    verdict = deals.provisioning.decide(ProvisionSnapshot(provision=a_provision(), chat=a_chat()))
    traced = evolve(deals.provisioning, new_id=ids_from(500), tracing=Traced())
    message = traced.message(verdict, correlation_id=RUN_ID)
    assert message is not None
    assert message.event_id == some_id(500)
    assert {**message.headers, **TRACE} == message.headers


async def test_caller_decides_on_the_commit(deals: Deals) -> None:
    deals.put(a_provision())
    async with deals.store.begin() as work:
        seen = await work.claim(PROVISION_ID, as_of=deals.as_of, rules=RULES)
        assert seen is not None
        await deals.provisioning.within(work, seen, correlation_id=RUN_ID)
    assert deals.provision == a_provision()
    assert (deals.chats, deals.messages) == ([], [])


async def test_chat_of_a_concurrent_creator_is_used(deals: Deals) -> None:
    deals.put(a_provision())
    deals.switch.at("settle", Phase.SENT, deals.putting(a_chat(), a_participant(BUYER, "Owner")))
    verdict = await attempt_within(deals)
    assert isinstance(verdict, Provisioned)
    assert (verdict.chat_id, verdict.new_chat) == (CHAT_ID, None)
    assert {row.user_id: row.role for row in deals.participants} == {BUYER: "Owner", SELLER: "Seller"}
    assert deals.feed == []


async def test_chat_of_a_concurrent_creator_that_cannot_be_used_is_a_refusal(deals: Deals) -> None:
    deals.put(a_provision())
    deals.switch.at("settle", Phase.SENT, deals.putting(a_chat(kind="Group")))
    verdict = await attempt_within(deals)
    assert isinstance(verdict, Refused)
    assert deals.provision.schedule.last_error == "ProvisionGuard:CHAT_NOT_OF_KIND_DEAL"
    assert deals.messages == []


async def test_rejected_values_are_counted_with_the_half_made_chat_undone(deals: Deals) -> None:
    deals.put(a_provision())
    deals.switch.at("settle", Phase.ANSWERED, DataRejected("23514", "check"))
    verdict = await attempt_within(deals)
    assert isinstance(verdict, Refused)
    assert str(verdict.error) == "Postgres:23514"
    assert deals.provision.schedule.attempts == 1
    assert (deals.chats, deals.participants, deals.feed, deals.messages) == ([], [], [], [])


async def test_rejection_of_the_last_attempt_is_told(deals: Deals) -> None:
    deals.put(a_failed_provision(attempts=RULES.max_attempts - 1))
    deals.switch.at("settle", Phase.ANSWERED, DataRejected("23514", "check"))
    assert report(await attempt_within(deals)).outcome is Outcome.FAILED
    assert deals.statuses_told == ["Failed"]


async def test_chat_that_moved_during_a_rejected_attempt_is_decided_on_again(deals: Deals) -> None:
    deals.put(a_provision(), a_chat())
    deals.switch.at("settle", Phase.ANSWERED, DataRejected("23514", "check"))
    deals.switch.at("roll back to savepoint", Phase.ANSWERED, deals.putting(a_chat(version=1)))
    assert isinstance(await attempt_within(deals), Provisioned)
    assert deals.provision.schedule.attempts == 1


async def test_chat_that_changes_twice_is_caught_up_with(deals: Deals) -> None:
    deals.put(a_provision(), a_chat())
    for version in (1, 2):
        deals.switch.at("settle", Phase.SENT, deals.putting(a_chat(version=version)))
    assert isinstance(await attempt_within(deals), Provisioned)


async def test_chat_that_never_stops_changing_rolls_the_row_back(deals: Deals) -> None:
    deals.put(a_provision(), a_chat())
    for version in (1, 2, 3):
        deals.switch.at("settle", Phase.SENT, deals.putting(a_chat(version=version)))
    with pytest.raises(RowRolledBack) as failure:
        await attempt_within(deals)
    assert failure.value.code == "CHAT_CHANGING"
    assert str(failure.value) == "the deal's chat kept changing during the attempt"
    assert deals.provision == a_provision()
    assert deals.messages == []


async def test_every_decision_takes_the_time_at_which_it_is_made(deals: Deals) -> None:
    seen = ProvisionSnapshot(provision=a_provision())
    first = deals.provisioning.decide(seen).provision.updated_at
    deals.clock.advance(RULES.stuck_after)
    assert deals.provisioning.decide(seen).provision.updated_at == first + RULES.stuck_after


def test_reports_name_what_is_committed(deals: Deals) -> None:
    provisioned = deals.provisioning.decide(ProvisionSnapshot(provision=a_provision(), chat=a_chat()))
    assert report(provisioned).subject == {"deal_id": DEAL_ID, "chat_id": CHAT_ID}
    refused = deals.provisioning.decide(ProvisionSnapshot(provision=a_provision(members=())))
    assert report(refused).subject == {"deal_id": DEAL_ID}
    assert (report(provisioned).error_code, report(refused).error_code) == (None, "ProvisionGuard:NO_MEMBERS")
    assert deals.provisioning.message(refused, correlation_id=RUN_ID) is None
