"""The deal's chat: who may be put into it, and how a wanted membership becomes the present one."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from messenger_jobs.domain.chat import ChatCreated, ChatEvent, Member, Participant, feed_entry, reconcile
from messenger_jobs.domain.errors import GuardViolation, IllegalTransition, InvariantViolation

from tests.support.builders import (
    BUYER,
    CHAT_ID,
    DEAL_ID,
    NOW,
    SELLER,
    a_chat,
    a_member,
    a_participant,
    ids_from,
    some_id,
)

YESTERDAY = NOW - timedelta(days=1)
AN_HOUR_AGO = NOW - timedelta(hours=1)


def changes(present: list[Participant], wanted: list[Member]) -> list[Participant]:
    return list(reconcile(CHAT_ID, present, wanted, now=NOW, new_id=ids_from(500)))


def test_missing_member_joins_now() -> None:
    assert changes([], [a_member(BUYER, "Buyer")]) == [
        Participant(
            id=some_id(500), chat_id=CHAT_ID, user_id=BUYER, role="Buyer", joined_at=NOW, left_at=None
        )
    ]


def test_member_who_left_comes_back_with_the_wanted_role_and_the_time_of_first_joining() -> None:
    left = a_participant(BUYER, "Observer", joined_at=YESTERDAY, left_at=AN_HOUR_AGO)

    assert changes([left], [a_member(BUYER, "Buyer")]) == [
        Participant(
            id=left.id, chat_id=CHAT_ID, user_id=BUYER, role="Buyer", joined_at=YESTERDAY, left_at=None
        )
    ]


def test_present_member_stays_as_is_even_in_another_role() -> None:
    assert changes([a_participant(BUYER, "Owner")], [a_member(BUYER, "Buyer")]) == []


@pytest.mark.parametrize("left_at", [None, AN_HOUR_AGO], ids=["present", "left"])
def test_people_who_are_not_wanted_are_left_alone(left_at: datetime | None) -> None:
    guest = a_participant(some_id(77), left_at=left_at)

    assert changes([guest], [a_member(BUYER)]) == [a_participant(BUYER, id=some_id(500), joined_at=NOW)]


def test_every_member_is_treated_by_their_own_state() -> None:
    third, fourth = some_id(13), some_id(14)
    present = [a_participant(BUYER), a_participant(SELLER, left_at=AN_HOUR_AGO)]
    wanted = [
        a_member(BUYER),
        a_member(SELLER, "Seller"),
        a_member(third, "Agent"),
        a_member(fourth, "Notary"),
    ]

    assert [(each.user_id, each.role, each.left_at) for each in changes(present, wanted)] == [
        (SELLER, "Seller", None),
        (third, "Agent", None),
        (fourth, "Notary", None),
    ]


def test_nobody_wanted_changes_nobody() -> None:
    assert changes([a_participant(BUYER, left_at=AN_HOUR_AGO)], []) == []


def test_present_participant_cannot_rejoin() -> None:
    with pytest.raises(IllegalTransition, match="rejoin"):
        a_participant().rejoined(role="Buyer")


@pytest.mark.parametrize("role", ["B", "R" * 32, "покупатель", "any vocabulary: even this"])
def test_role_is_an_open_vocabulary_kept_as_given(role: str) -> None:
    assert a_member(role=role).role == role


@pytest.mark.parametrize("role", ["", "R" * 33])
def test_role_outside_1_to_32_characters_is_refused(role: str) -> None:
    with pytest.raises(InvariantViolation, match="1 to 32"):
        a_member(role=role)


def test_active_chat_of_kind_deal_is_usable() -> None:
    a_chat(kind="Deal", status="Active").ensure_usable_for_deal()


@pytest.mark.parametrize(
    ("kind", "status", "code"),
    [
        ("Group", "Active", "CHAT_NOT_OF_KIND_DEAL"),
        ("deal", "Active", "CHAT_NOT_OF_KIND_DEAL"),
        ("Group", "Archived", "CHAT_NOT_OF_KIND_DEAL"),
        ("Deal", "Archived", "CHAT_NOT_ACTIVE"),
        ("Deal", "active", "CHAT_NOT_ACTIVE"),
    ],
)
def test_any_other_chat_is_refused_with_its_code(kind: str, status: str, code: str) -> None:
    with pytest.raises(GuardViolation) as refusal:
        a_chat(kind=kind, status=status).ensure_usable_for_deal()

    assert refusal.value.code == code


def test_feed_tells_that_the_system_provisioned_the_deals_chat() -> None:
    created = ChatCreated(chat_id=CHAT_ID, deal_id=DEAL_ID, occurred_at=NOW)

    assert feed_entry(created, id=some_id(900)) == ChatEvent(
        id=some_id(900),
        chat_id=CHAT_ID,
        type="DealChatProvisioned",
        actor="System",
        occurred_at=NOW,
        data={"dealId": str(DEAL_ID)},
    )
