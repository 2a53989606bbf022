from __future__ import annotations

import asyncio

import pytest
from attrs import evolve
from messenger_jobs.adapters.memory.provision_rows import committed_provision
from messenger_jobs.adapters.memory.switch import Phase
from messenger_jobs.application.cycle_report import AttemptReport, Outcome
from messenger_jobs.application.ports.errors import (
    DatabaseUnavailable,
    DataRejected,
    Misconfigured,
    PortError,
    RowRolledBack,
)
from messenger_jobs.application.provision_created_deal import CreatedDeal, ProvisionCreatedDeal
from messenger_jobs.domain.chat import Member
from messenger_jobs.domain.deal_chat_provision import DealChatProvision, ProvisioningRules, ProvisionStatus

from tests.support.builders import (
    BUYER,
    CHAT_ID,
    DEAL_ID,
    NOW,
    PROJECT_ID,
    RULES,
    SELLER,
    TENANT_ID,
    a_chat,
    a_failed_provision,
    a_member,
    a_participant,
    a_provision,
    a_ready_provision,
    some_id,
)
from tests.unit.application.deals import MINUTE, Deals

EVENT_ID, CORRELATION_ID = some_id(501), some_id(502)
BOTH = (a_member(BUYER), a_member(SELLER, "Seller"))


@pytest.fixture
def deals() -> Deals:
    return Deals()


def a_created_deal(title: str = "Flat 12", members: tuple[Member, ...] = BOTH) -> CreatedDeal:
    return CreatedDeal(
        deal_id=DEAL_ID,
        title=title,
        project_id=PROJECT_ID,
        deal_tenant_id=TENANT_ID,
        members=members,
        event_id=EVENT_ID,
        correlation_id=CORRELATION_ID,
    )


async def provision(deals: Deals, deal: CreatedDeal | None = None) -> AttemptReport:
    use_case = ProvisionCreatedDeal(
        store=deals.store, provisioning=deals.provisioning, clock=deals.clock, new_id=deals.new_id
    )
    return await use_case(deal or a_created_deal())


def the_only_provision(deals: Deals) -> DealChatProvision:
    (row,) = deals.database.rows(deals.database.provisions)
    stored = committed_provision(deals.database, row.id)
    assert stored is not None
    return stored


def everything(deals: Deals) -> object:
    return deals.database.rows(deals.database.provisions), deals.chats, deals.messages


async def test_new_deal_gets_its_chat_at_once(deals: Deals) -> None:
    report = await provision(deals)
    (chat,) = deals.chats
    assert report.outcome is Outcome.PROVISIONED
    assert report.subject == {"deal_id": DEAL_ID, "chat_id": chat.id}
    stored = the_only_provision(deals)
    assert (stored.status, stored.chat_id, stored.schedule.attempts) == (ProvisionStatus.READY, chat.id, 1)
    assert (stored.title, stored.project_id, stored.deal_tenant_id) == ("Flat 12", PROJECT_ID, TENANT_ID)
    assert (stored.created_at, stored.updated_at) == (NOW, NOW)
    assert (stored.id, stored.version) == (some_id(1_000_000), 1)
    assert {(one.user_id, one.role) for one in deals.participants} == {(BUYER, "Buyer"), (SELLER, "Seller")}
    assert len(deals.feed) == 1


async def test_event_carries_the_messages_correlation_id(deals: Deals) -> None:
    await provision(deals)
    (message,) = deals.messages
    assert message.headers["correlation-id"] == str(CORRELATION_ID)
    assert message.payload["status"] == "Ready"


async def test_usual_deal_costs_seven_exchanges(deals: Deals) -> None:
    await provision(deals)
    assert deals.operations() == [
        "begin", "intend", "savepoint", "settle", "release savepoint", "add message", "commit",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("deal", "error"),
    [
        pytest.param(a_created_deal(members=()), "ProvisionGuard:NO_MEMBERS", id="no members"),
        pytest.param(a_created_deal(title=" "), "ProvisionGuard:EMPTY_TITLE", id="empty title"),
    ],
)
async def test_deal_that_a_rule_refuses_is_counted_and_left_to_the_retry_job(
    deals: Deals, deal: CreatedDeal, error: str
) -> None:
    report = await provision(deals, deal)
    assert (report.outcome, report.attempts, report.error_code) == (Outcome.RETRIED, 1, error)
    stored = the_only_provision(deals)
    assert (stored.status, stored.schedule.attempts) == (ProvisionStatus.FAILED, 1)
    assert (stored.schedule.last_error, stored.schedule.next_attempt_at) == (error, NOW + MINUTE)
    assert (deals.chats, deals.messages) == ([], [])


async def test_refusal_of_the_only_allowed_attempt_is_told(deals: Deals) -> None:
    deals = Deals(rules=ProvisioningRules(max_attempts=1))
    report = await provision(deals, a_created_deal(members=()))
    assert report.outcome is Outcome.FAILED
    assert deals.statuses_told == ["Failed"]


async def test_same_membership_named_twice_is_one(deals: Deals) -> None:
    report = await provision(deals, a_created_deal(members=(*BOTH, a_member(BUYER))))
    assert report.outcome is Outcome.PROVISIONED
    assert len(deals.participants) == 2


async def test_user_with_two_roles_is_refused_now_and_gets_the_first_by_the_retry_job(deals: Deals) -> None:
    members = (a_member(BUYER, "Buyer"), a_member(SELLER, "Seller"), a_member(BUYER, "Agent"))
    report = await provision(deals, a_created_deal(members=members))
    assert (report.outcome, report.error_code) == (Outcome.RETRIED, "ProvisionGuard:DUPLICATE_MEMBER")
    assert deals.chats == []
    deals.clock.advance(MINUTE)
    deals.as_of = deals.clock.now()
    assert (await deals.attempt()).outcome is Outcome.PROVISIONED
    assert {(one.user_id, one.role) for one in deals.participants} == {(BUYER, "Buyer"), (SELLER, "Seller")}


async def test_chat_that_the_deal_has_already_is_used(deals: Deals) -> None:
    deals.put(a_chat(), a_participant(BUYER, "Owner"))
    report = await provision(deals)
    assert report.subject["chat_id"] == CHAT_ID
    assert {one.user_id: one.role for one in deals.participants} == {BUYER: "Owner", SELLER: "Seller"}
    assert (len(deals.chats), deals.feed) == (1, [])


async def test_chat_that_cannot_be_used_is_a_refusal(deals: Deals) -> None:
    deals.put(a_chat(status="Archived"))
    report = await provision(deals)
    assert report.error_code == "ProvisionGuard:CHAT_NOT_ACTIVE"
    assert the_only_provision(deals).schedule.attempts == 1


@pytest.mark.parametrize(
    "known",
    [
        pytest.param(a_ready_provision(), id="ready"),
        pytest.param(a_failed_provision(), id="failed"),
        pytest.param(a_failed_provision(attempts=RULES.max_attempts), id="used up"),
        pytest.param(a_provision(attempts=1), id="tried and stuck"),
        pytest.param(evolve(a_failed_provision(), schedule=a_provision().schedule), id="requeued"),
    ],
)
async def test_intent_that_was_tried_before_is_not_touched(deals: Deals, known: DealChatProvision) -> None:
    deals.put(a_chat())
    deals.put(known)
    before = everything(deals)
    report = await provision(deals, a_created_deal(title="Another title"))
    assert report == AttemptReport(
        outcome=Outcome.DUPLICATE, subject={"deal_id": DEAL_ID}, attempts=known.schedule.attempts
    )
    assert everything(deals) == before
    assert (deals.database.open_transactions, deals.database.locks.held) == (0, 0)


async def test_intent_that_was_never_tried_is_attempted_as_it_was_stored(deals: Deals) -> None:
    deals.put(a_provision(title="Stored title", updated_at=NOW))
    report = await provision(deals, a_created_deal(title="Another title", members=()))
    assert report.outcome is Outcome.PROVISIONED
    assert (deals.chats[0].title, len(deals.participants)) == ("Stored title", 2)


async def test_repeated_message_changes_nothing(deals: Deals) -> None:
    await provision(deals)
    before = everything(deals)
    assert (await provision(deals)).outcome is Outcome.DUPLICATE
    assert everything(deals) == before


async def test_deal_delivered_twice_at_once_gets_one_chat(deals: Deals) -> None:
    reports = await asyncio.gather(*(provision(deals) for _ in range(5)))
    outcomes = sorted(report.outcome for report in reports)
    assert outcomes == [*[Outcome.DUPLICATE] * 4, Outcome.PROVISIONED]
    assert (len(deals.chats), deals.statuses_told) == (1, ["Ready"])


async def test_title_that_cannot_be_stored_is_rejected(deals: Deals) -> None:
    with pytest.raises(DataRejected):
        await provision(deals, a_created_deal(title="x" * 257))
    assert everything(deals) == ([], [], [])


@pytest.mark.parametrize("operation", ["begin", "intend", "settle", "add message", "commit"])
@pytest.mark.parametrize(
    "error",
    [
        RowRolledBack("40P01", "a deadlock"),
        DatabaseUnavailable("CONNECTION_LOST", "the connection failed"),
        Misconfigured("42P01", "a table is missing"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_failure_of_the_infrastructure_leaves_nothing_and_comes_through(
    deals: Deals, operation: str, error: PortError
) -> None:
    deals.switch.at(operation, Phase.SENT, error)
    with pytest.raises(type(error)):
        await provision(deals)
    assert everything(deals) == ([], [], [])
    assert (await provision(deals)).outcome is Outcome.PROVISIONED


async def test_message_that_is_delivered_again_after_a_lost_commit_answer_is_a_duplicate(
    deals: Deals,
) -> None:
    deals.switch.at("commit", Phase.ANSWERED, DatabaseUnavailable("NO_ANSWER", "no answer"))
    with pytest.raises(DatabaseUnavailable):
        await provision(deals)
    assert (await provision(deals)).outcome is Outcome.DUPLICATE
    assert (len(deals.chats), deals.statuses_told) == (1, ["Ready"])
