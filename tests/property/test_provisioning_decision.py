"""One attempt, over everything it can see: total, counted once, and silent about people."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from attrs import asdict, evolve
from hypothesis import assume, given
from hypothesis import strategies as st
from messenger_jobs.domain.chat import Chat
from messenger_jobs.domain.deal_chat_provision import (
    DealChatProvision,
    DealChatStatusChanged,
    ProvisioningRules,
    ProvisionStatus,
)
from messenger_jobs.domain.errors import AttemptError, IllegalTransition
from messenger_jobs.domain.provisioning import (
    Provisioned,
    ProvisionSnapshot,
    Refused,
    Verdict,
    decide,
    refuse,
)

from tests.property.strategies import (
    attempt_errors,
    chats,
    instants,
    near_now,
    provisions,
    rules,
    snapshots,
    spreads,
)
from tests.support.builders import MICROSECOND, ids_from

Attempt = tuple[ProvisionSnapshot, Verdict, ProvisioningRules, datetime]


def _decide(seen: ProvisionSnapshot, rules: ProvisioningRules, now: datetime, spread: float) -> Verdict:
    return decide(seen, now=now, spread=spread, rules=rules, new_id=ids_from())


@st.composite
def attempts(draw: st.DrawFn) -> Attempt:
    """An attempt that may be made, with its verdict."""
    of = draw(rules)
    seen = draw(snapshots(of))
    now = draw(instants)
    return seen, _decide(seen, of, now, draw(spreads)), of, now


def _expected_guard(seen: ProvisionSnapshot) -> str | None:
    """The guards in their order, said a second time."""
    users = [member.user_id for member in seen.provision.members]
    guards: list[tuple[str, bool]] = [
        ("NO_MEMBERS", users == []),
        ("DUPLICATE_MEMBER", sorted(set(users)) != sorted(users)),
        ("EMPTY_TITLE", seen.provision.title.isspace() or seen.provision.title == ""),
        ("TITLE_TOO_LONG", len(seen.provision.title) > 256),
        ("CHAT_NOT_OF_KIND_DEAL", seen.chat is not None and seen.chat.kind != "Deal"),
        ("CHAT_NOT_ACTIVE", seen.chat is not None and seen.chat.status != "Active"),
    ]
    return next((code for code, refuses in guards if refuses), None)


@given(attempt=attempts())
def test_attempt_succeeds_unless_a_guard_refuses_and_names_the_first_one_that_does(attempt: Attempt) -> None:
    seen, verdict, _, _ = attempt
    match _expected_guard(seen):
        case None:
            assert isinstance(verdict, Provisioned)
            assert verdict.provision.status is ProvisionStatus.READY
        case code:
            assert isinstance(verdict, Refused)
            assert verdict.provision.status is ProvisionStatus.FAILED
            assert verdict.error == AttemptError("ProvisionGuard", code)


@given(attempt=attempts())
def test_attempt_counts_once_and_raises_the_version_once(attempt: Attempt) -> None:
    seen, verdict, _, now = attempt

    assert verdict.provision.schedule.attempts == seen.provision.schedule.attempts + 1
    assert verdict.provision.version == seen.provision.version + 1
    assert verdict.provision.updated_at == now


@given(attempt=attempts())
def test_attempt_changes_nothing_else_about_the_provision(attempt: Attempt) -> None:
    seen, verdict, _, _ = attempt
    after = verdict.provision

    assert (
        evolve(
            seen.provision,
            status=after.status,
            chat_id=after.chat_id,
            schedule=after.schedule,
            updated_at=after.updated_at,
            version=after.version,
        )
        == after
    )


@given(attempt=attempts())
def test_next_attempt_waits_at_most_the_cap_and_never_lies_in_the_past(attempt: Attempt) -> None:
    seen, verdict, rules, now = attempt
    wait = verdict.provision.schedule.next_attempt_at - now

    assert timedelta(0) <= wait <= rules.backoff.cap
    assert rules.backoff.shortest_first_delay() <= wait
    assert wait <= rules.backoff.delay(seen.provision.schedule.attempts + 1, 0.0)


@given(attempt=attempts())
def test_outside_is_told_when_ready_or_when_no_attempt_is_left_and_only_then(attempt: Attempt) -> None:
    _, verdict, rules, now = attempt
    provision = verdict.provision
    last = provision.schedule.attempts == rules.max_attempts

    if isinstance(verdict, Provisioned) or last:
        assert verdict.event == DealChatStatusChanged(
            deal_id=provision.deal_id, chat_id=provision.chat_id, status=provision.status, occurred_at=now
        )
    else:
        assert verdict.event is None


@given(attempt=attempts())
def test_chat_and_its_feed_entry_are_created_when_the_deal_has_none_and_only_then(attempt: Attempt) -> None:
    seen, verdict, _, now = attempt
    if not isinstance(verdict, Provisioned):
        return
    if seen.chat is not None:
        assert verdict.new_chat is None
        assert verdict.chat_id == seen.chat.id
        return

    assert verdict.new_chat is not None
    chat, entry = verdict.new_chat.chat, verdict.new_chat.feed_entry
    chat.ensure_usable_for_deal()
    assert verdict.chat_id == chat.id == entry.chat_id
    assert chat.deal_id == seen.provision.deal_id
    assert chat.title == seen.provision.title
    assert entry.occurred_at == chat.created_at == chat.updated_at == now


@given(attempt=attempts())
def test_chat_ends_up_with_every_member_and_nobody_twice(attempt: Attempt) -> None:
    seen, verdict, _, _ = attempt
    if not isinstance(verdict, Provisioned):
        return
    present = {each.user_id for each in seen.participants if each.left_at is None}
    written = [each.user_id for each in verdict.participants]

    assert present | set(written) >= {member.user_id for member in seen.provision.members}
    assert present.isdisjoint(written)
    assert len(set(written)) == len(written)
    assert {each.chat_id for each in verdict.participants} <= {verdict.chat_id}


@given(attempt=attempts())
def test_ids_of_what_is_created_are_all_different(attempt: Attempt) -> None:
    _, verdict, _, _ = attempt
    if not isinstance(verdict, Provisioned):
        return
    created = [each.id for each in verdict.participants]
    if verdict.new_chat is not None:
        created += [verdict.new_chat.chat.id, verdict.new_chat.feed_entry.id]

    assert len(set(created)) == len(created)


def _texts(value: object) -> set[str]:
    match value:
        case str():
            return {value}
        case dict():
            return set().union(*(_texts(part) for part in value.values()))
        case list() | tuple():
            return set().union(*(_texts(part) for part in value))
        case _:
            return set()


def _told(verdict: Verdict) -> list[dict[str, Any]]:
    """Everything of a verdict that people outside the chat can read."""
    told: list[dict[str, Any]] = []
    if verdict.event is not None:
        told.append(asdict(verdict.event))
    match verdict:
        case Provisioned(new_chat=created) if created is not None:
            told.append(asdict(created.feed_entry))
        case Refused():
            told.append(asdict(verdict.error))
        case _:
            pass
    return told


@given(attempt=attempts())
def test_titles_and_roles_are_in_no_event_feed_entry_or_error(attempt: Attempt) -> None:
    seen, _, rules, now = attempt
    told_to_nobody = "Иванов Иван, ул. Ленина 12"
    members = tuple(evolve(member, role="Покупатель") for member in seen.provision.members)
    private = evolve(seen, provision=evolve(seen.provision, title=told_to_nobody, members=members))

    for told in _told(_decide(private, rules, now, 0.0)):
        assert not any(told_to_nobody in text or "Покупатель" in text for text in _texts(told))


@given(attempt=attempts(), error=attempt_errors, spread=spreads)
def test_refusal_from_outside_counts_like_a_guards(
    attempt: Attempt, error: AttemptError, spread: float
) -> None:
    seen, _, rules, now = attempt

    verdict = refuse(seen.provision, error, now=now, spread=spread, rules=rules)

    assert verdict.provision.status is ProvisionStatus.FAILED
    assert verdict.provision.schedule.attempts == seen.provision.schedule.attempts + 1
    assert verdict.provision.schedule.last_error == str(error)
    assert (verdict.event is not None) is verdict.provision.schedule.exhausted(rules.max_attempts)


@given(
    provision=provisions(statuses=st.just(ProvisionStatus.READY)),
    chat=st.none() | chats(),
    rules=rules,
    now=instants,
    error=attempt_errors,
)
def test_no_decision_leads_out_of_ready(
    provision: DealChatProvision,
    chat: Chat | None,
    rules: ProvisioningRules,
    now: datetime,
    error: AttemptError,
) -> None:
    steps: list[Callable[[], object]] = [
        lambda: _decide(ProvisionSnapshot(provision=provision, chat=chat), rules, now, 0.0),
        lambda: refuse(provision, error, now=now, spread=0.0, rules=rules),
        lambda: provision.requeued(now=now),
    ]
    for step in steps:
        with pytest.raises(IllegalTransition):
            step()
    assert not provision.is_due(as_of=now, rules=rules)


@given(provision=provisions(), as_of=near_now, rules=rules)
def test_whatever_is_due_can_be_attempted(
    provision: DealChatProvision, as_of: datetime, rules: ProvisioningRules
) -> None:
    if provision.is_due(as_of=as_of, rules=rules):
        verdict = _decide(ProvisionSnapshot(provision=provision), rules, as_of, 0.0)
        assert verdict.provision.schedule.attempts <= rules.max_attempts


@given(provision=provisions(), as_of=near_now, rules=rules)
def test_row_is_due_when_the_selection_rule_says_so(
    provision: DealChatProvision, as_of: datetime, rules: ProvisioningRules
) -> None:
    expected = (
        provision.schedule.attempts < rules.max_attempts
        and provision.schedule.next_attempt_at <= as_of
        and (
            provision.status is ProvisionStatus.FAILED
            or (
                provision.status is ProvisionStatus.PROVISIONING
                and provision.updated_at <= as_of - rules.stuck_after
            )
        )
    )

    assert provision.is_due(as_of=as_of, rules=rules) is expected


@given(provision=provisions(), as_of=near_now, rules=rules)
def test_what_is_due_stays_due_until_it_is_tried(
    provision: DealChatProvision, as_of: datetime, rules: ProvisioningRules
) -> None:
    if provision.is_due(as_of=as_of, rules=rules):
        assert provision.is_due(as_of=as_of + MICROSECOND, rules=rules)
        assert provision.is_due(as_of=as_of + timedelta(days=1), rules=rules)


@given(
    provision=provisions(statuses=st.sampled_from([ProvisionStatus.PROVISIONING, ProvisionStatus.FAILED])),
    now=near_now,
    rules=rules,
)
def test_requeue_makes_a_row_due_at_once_unless_its_first_attempt_may_still_be_running(
    provision: DealChatProvision, now: datetime, rules: ProvisioningRules
) -> None:
    assume(now > provision.updated_at)
    requeued = provision.requeued(now=now)

    assert requeued.is_due(as_of=now, rules=rules) is (
        provision.status is ProvisionStatus.FAILED or now - provision.updated_at >= rules.stuck_after
    )
    assert requeued.is_due(as_of=max(now, provision.updated_at + rules.stuck_after), rules=rules)
    assert not requeued.is_due(as_of=now - MICROSECOND, rules=rules)
