"""One attempt as a decision: what is refused and why, and what a success writes."""

from __future__ import annotations

from datetime import timedelta

import pytest
from attrs import evolve
from messenger_jobs.domain.chat import Chat, ChatEvent, Member
from messenger_jobs.domain.deal_chat_provision import (
    DealChatProvision,
    DealChatStatusChanged,
    ProvisionStatus,
)
from messenger_jobs.domain.errors import AttemptError, IllegalTransition
from messenger_jobs.domain.provisioning import (
    NewChat,
    Provisioned,
    ProvisionSnapshot,
    Refused,
    Verdict,
    decide,
    refuse,
)
from messenger_jobs.domain.retry_schedule import RetrySchedule

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
    ids_from,
    some_id,
)

NEW_CHAT_ID, FEED_ENTRY_ID, FIRST_PARTICIPANT_ID, SECOND_PARTICIPANT_ID = (some_id(500 + n) for n in range(4))
AN_HOUR_AGO = NOW - timedelta(hours=1)


def attempt(seen: ProvisionSnapshot, *, spread: float = 0.0) -> Verdict:
    return decide(seen, now=NOW, spread=spread, rules=RULES, new_id=ids_from(500))


def provisioned(seen: ProvisionSnapshot) -> Provisioned:
    verdict = attempt(seen)
    assert isinstance(verdict, Provisioned)
    return verdict


def refused(seen: ProvisionSnapshot) -> Refused:
    verdict = attempt(seen)
    assert isinstance(verdict, Refused)
    return verdict


GUARDS = [
    pytest.param(a_provision(members=()), None, "NO_MEMBERS", id="no members"),
    pytest.param(
        a_provision(members=(a_member(BUYER, "Buyer"), a_member(SELLER), a_member(BUYER, "Seller"))),
        None,
        "DUPLICATE_MEMBER",
        id="one person twice",
    ),
    pytest.param(a_provision(title=""), None, "EMPTY_TITLE", id="no title"),
    pytest.param(a_provision(title=" \t\n\u00a0"), None, "EMPTY_TITLE", id="blank title"),
    pytest.param(a_provision(title="T" * 257), None, "TITLE_TOO_LONG", id="title of 257 characters"),
    pytest.param(a_provision(), a_chat(kind="Group"), "CHAT_NOT_OF_KIND_DEAL", id="chat of another kind"),
    pytest.param(a_provision(), a_chat(status="Archived"), "CHAT_NOT_ACTIVE", id="archived chat"),
]


@pytest.mark.parametrize(("provision", "chat", "code"), GUARDS)
def test_guard_refuses_with_its_code_and_the_attempt_counts(
    provision: DealChatProvision, chat: Chat | None, code: str
) -> None:
    assert attempt(ProvisionSnapshot(provision=provision, chat=chat)) == Refused(
        provision=evolve(
            provision,
            status=ProvisionStatus.FAILED,
            schedule=RetrySchedule(
                attempts=1, next_attempt_at=NOW + timedelta(minutes=1), last_error=f"ProvisionGuard:{code}"
            ),
            updated_at=NOW,
            version=1,
        ),
        error=AttemptError("ProvisionGuard", code),
        event=None,
    )


@pytest.mark.parametrize(("provision", "chat", "code"), GUARDS)
def test_every_guard_poisons_the_row_at_the_last_attempt_and_says_so(
    provision: DealChatProvision, chat: Chat | None, code: str
) -> None:
    last = evolve(provision, schedule=RetrySchedule(attempts=7, next_attempt_at=NOW))

    verdict = refused(ProvisionSnapshot(provision=last, chat=chat))

    assert verdict.provision.schedule.attempts == 8
    assert verdict.provision.schedule.last_error == f"ProvisionGuard:{code}"
    assert verdict.event == DealChatStatusChanged(
        deal_id=DEAL_ID, chat_id=None, status=ProvisionStatus.FAILED, occurred_at=NOW
    )
    assert not verdict.provision.is_due(as_of=NOW + timedelta(days=365), rules=RULES)


def test_deal_without_a_chat_gets_one_with_its_feed_entry_and_members() -> None:
    provision = a_provision(members=(a_member(BUYER, "Buyer"), a_member(SELLER, "Seller")))

    assert attempt(ProvisionSnapshot(provision=provision)) == Provisioned(
        provision=evolve(
            provision,
            status=ProvisionStatus.READY,
            chat_id=NEW_CHAT_ID,
            schedule=RetrySchedule(attempts=1, next_attempt_at=NOW + timedelta(minutes=1)),
            updated_at=NOW,
            version=1,
        ),
        chat_id=NEW_CHAT_ID,
        new_chat=NewChat(
            chat=Chat(
                id=NEW_CHAT_ID,
                kind="Deal",
                status="Active",
                deal_id=DEAL_ID,
                title="Flat 12",
                project_id=PROJECT_ID,
                deal_tenant_id=TENANT_ID,
                created_at=NOW,
                updated_at=NOW,
                version=0,
            ),
            feed_entry=ChatEvent(
                id=FEED_ENTRY_ID,
                chat_id=NEW_CHAT_ID,
                type="DealChatProvisioned",
                actor="System",
                occurred_at=NOW,
                data={"dealId": str(DEAL_ID)},
            ),
        ),
        participants=(
            a_participant(BUYER, "Buyer", id=FIRST_PARTICIPANT_ID, chat_id=NEW_CHAT_ID, joined_at=NOW),
            a_participant(SELLER, "Seller", id=SECOND_PARTICIPANT_ID, chat_id=NEW_CHAT_ID, joined_at=NOW),
        ),
        event=DealChatStatusChanged(
            deal_id=DEAL_ID, chat_id=NEW_CHAT_ID, status=ProvisionStatus.READY, occurred_at=NOW
        ),
    )


def test_chat_that_exists_is_used_and_only_those_absent_are_written() -> None:
    guest = a_participant(some_id(77), "Guest")
    seller = a_participant(SELLER, "Observer", left_at=AN_HOUR_AGO)

    verdict = provisioned(
        ProvisionSnapshot(
            provision=a_provision(members=(a_member(BUYER, "Buyer"), a_member(SELLER, "Seller"))),
            chat=a_chat(),
            participants=(guest, seller),
        )
    )

    assert verdict.chat_id == verdict.provision.chat_id == verdict.event.chat_id == CHAT_ID
    assert verdict.new_chat is None
    assert verdict.participants == (
        a_participant(BUYER, "Buyer", id=some_id(500), joined_at=NOW),
        evolve(seller, role="Seller", left_at=None),
    )


def test_success_after_failures_forgets_the_error() -> None:
    verdict = provisioned(ProvisionSnapshot(provision=a_failed_provision(attempts=7)))

    assert verdict.provision.schedule == RetrySchedule(
        attempts=8, next_attempt_at=NOW + timedelta(minutes=15), last_error=None
    )


@pytest.mark.parametrize("title", ["T", "T" * 256, "\U0001f3e0" * 256, " Flat 12 "])
def test_title_of_1_to_256_characters_becomes_the_chats_as_it_is(title: str) -> None:
    verdict = provisioned(ProvisionSnapshot(provision=a_provision(title=title)))

    assert verdict.new_chat is not None
    assert verdict.new_chat.chat.title == title


def test_title_of_a_chat_that_exists_is_left_alone() -> None:
    verdict = provisioned(
        ProvisionSnapshot(provision=a_provision(title="Flat 12"), chat=a_chat(title="Renamed by its members"))
    )

    assert verdict.new_chat is None


def test_one_member_is_enough() -> None:
    verdict = provisioned(ProvisionSnapshot(provision=a_provision(members=(a_member(),))))

    assert [each.user_id for each in verdict.participants] == [BUYER]


@pytest.mark.parametrize(
    ("attempts_before", "spread", "delay"),
    [
        (0, 0.0, timedelta(minutes=1)),
        (0, 0.5, timedelta(seconds=54)),
        (1, 0.0, timedelta(minutes=2)),
        (3, 0.5, timedelta(minutes=7, seconds=12)),
        (7, 0.0, timedelta(minutes=15)),
    ],
)
@pytest.mark.parametrize("members", [(), (a_member(),)], ids=["refused", "provisioned"])
def test_next_attempt_waits_by_the_number_of_this_one(
    attempts_before: int, spread: float, delay: timedelta, members: tuple[Member, ...]
) -> None:
    provision = evolve(
        a_provision(members=members), schedule=RetrySchedule(attempts=attempts_before, next_attempt_at=NOW)
    )

    verdict = attempt(ProvisionSnapshot(provision=provision), spread=spread)

    assert verdict.provision.schedule.next_attempt_at == NOW + delay


def test_refusal_for_any_other_reason_counts_the_same_way() -> None:
    error = AttemptError("Postgres", "22021")

    verdict = refuse(a_failed_provision(attempts=2), error, now=NOW, spread=0.5, rules=RULES)

    assert verdict.error == error
    assert verdict.provision.status is ProvisionStatus.FAILED
    assert verdict.provision.schedule == RetrySchedule(
        attempts=3, next_attempt_at=NOW + timedelta(minutes=3, seconds=36), last_error="Postgres:22021"
    )
    assert verdict.event is None


def test_refusal_for_any_other_reason_is_told_at_the_last_attempt() -> None:
    verdict = refuse(
        a_failed_provision(attempts=7), AttemptError("Postgres", "22021"), now=NOW, spread=0.0, rules=RULES
    )

    assert verdict.event is not None
    assert verdict.event.status is ProvisionStatus.FAILED


@pytest.mark.parametrize(
    "chat", [None, a_chat(), a_chat(status="Archived")], ids=["none", "active", "archived"]
)
def test_ready_provision_is_never_attempted_again(chat: Chat | None) -> None:
    with pytest.raises(IllegalTransition, match="stays ready"):
        attempt(ProvisionSnapshot(provision=a_ready_provision(), chat=chat))


@pytest.mark.parametrize("chat", [None, a_chat(status="Archived")], ids=["would succeed", "would be refused"])
def test_poison_is_never_attempted_again(chat: Chat | None) -> None:
    with pytest.raises(IllegalTransition, match="operator"):
        attempt(ProvisionSnapshot(provision=a_failed_provision(attempts=8), chat=chat))
