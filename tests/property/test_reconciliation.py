"""Reconciliation is additive, idempotent and blind to order, for every membership."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from messenger_jobs.domain.chat import Member, Participant, reconcile

from tests.property.strategies import distinct_members, participants
from tests.support.builders import CHAT_ID, NOW, ids_from


def _changes(present: Sequence[Participant], wanted: Sequence[Member]) -> tuple[Participant, ...]:
    return reconcile(CHAT_ID, present, wanted, now=NOW, new_id=ids_from())


def _by_user(everybody: Sequence[Participant]) -> dict[UUID, Participant]:
    return {participant.user_id: participant for participant in everybody}


def _written(present: Sequence[Participant], changes: Sequence[Participant]) -> list[Participant]:
    """The chat after the changes: written by user, as the store does."""
    return list({**_by_user(present), **_by_user(changes)}.values())


@given(present=participants, wanted=distinct_members)
def test_everybody_wanted_is_present_afterwards(present: list[Participant], wanted: list[Member]) -> None:
    after = _by_user(_written(present, _changes(present, wanted)))

    assert all(after[member.user_id].left_at is None for member in wanted)


@given(present=participants, wanted=distinct_members)
def test_once_more_changes_nothing(present: list[Participant], wanted: list[Member]) -> None:
    after = _written(present, _changes(present, wanted))

    assert _changes(after, wanted) == ()


@given(present=participants, wanted=distinct_members)
def test_nobody_is_removed_or_leaves(present: list[Participant], wanted: list[Member]) -> None:
    after = _by_user(_written(present, _changes(present, wanted)))

    for participant in present:
        kept = after[participant.user_id]
        assert evolve(kept, role=participant.role, left_at=participant.left_at) == participant
        assert kept.left_at is None or kept.left_at == participant.left_at


@given(present=participants, wanted=distinct_members)
def test_exactly_the_wanted_who_are_missing_or_left_are_written_with_the_wanted_role(
    present: list[Participant], wanted: list[Member]
) -> None:
    there = {participant.user_id for participant in present if participant.left_at is None}

    changes = _changes(present, wanted)

    assert {(change.user_id, change.role) for change in changes} == {
        (member.user_id, member.role) for member in wanted if member.user_id not in there
    }
    assert len(changes) == len(_by_user(changes))


@given(present=participants, wanted=distinct_members)
def test_those_who_come_back_keep_their_row_and_newcomers_get_one_of_their_own(
    present: list[Participant], wanted: list[Member]
) -> None:
    before = _by_user(present)

    changes = _changes(present, wanted)

    for change in changes:
        assert change.chat_id == CHAT_ID
        if change.user_id in before:
            assert (change.id, change.joined_at) == (
                before[change.user_id].id,
                before[change.user_id].joined_at,
            )
        else:
            assert change.joined_at == NOW
    assert len({change.id for change in changes}) == len(changes)


@given(present=participants, wanted=distinct_members, data=st.data())
def test_order_decides_nothing_but_the_new_ids(
    present: list[Participant], wanted: list[Member], data: st.DataObject
) -> None:
    def people(changes: Sequence[Participant]) -> set[tuple[UUID, str, object, object]]:
        return {(each.user_id, each.role, each.joined_at, each.left_at) for each in changes}

    shuffled = _changes(data.draw(st.permutations(present)), data.draw(st.permutations(wanted)))

    assert people(shuffled) == people(_changes(present, wanted))


@given(present=participants, wanted=distinct_members, further=distinct_members)
def test_wanting_more_people_never_writes_fewer(
    present: list[Participant], wanted: list[Member], further: list[Member]
) -> None:
    known = {member.user_id for member in wanted}
    more = wanted + [member for member in further if member.user_id not in known]

    assert {each.user_id for each in _changes(present, wanted)} <= {
        each.user_id for each in _changes(present, more)
    }
