"""The life of one deal's provision among runners, an operator, another creator and the chat's own people."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import pytest
from attrs import evolve, frozen
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
)
from messenger_jobs.domain.chat import ACTIVE, Chat, ChatEvent, Member, Participant
from messenger_jobs.domain.deal_chat_provision import (
    DealChatProvision,
    DealChatStatusChanged,
    ProvisionStatus,
)
from messenger_jobs.domain.errors import AttemptError, IllegalTransition
from messenger_jobs.domain.provisioning import Provisioned, ProvisionSnapshot, Verdict, decide, refuse

from tests.property.strategies import chats, distinct_members, spreads
from tests.support.builders import NOW, RULES, a_chat, a_member, a_participant, a_provision, ids_from, some_id

REJECTED: Final = AttemptError("Postgres", "22021")


@frozen(kw_only=True)
class LookAhead:
    """What a runner has read without locks and may act on much later."""

    seen: ProvisionSnapshot
    as_of: datetime


class ProvisionLife(RuleBasedStateMachine):
    """One row, at most one chat, and everybody who can touch them; writes are guarded as every store must."""

    look_aheads: Bundle[LookAhead] = Bundle("look_aheads")

    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.limits = RULES
        self.new_id = ids_from()
        self.provision: DealChatProvision = a_provision()
        self.chats: list[Chat] = []
        self.made_elsewhere: set[UUID] = set()
        self.participants: dict[UUID, Participant] = {}
        self.feed: list[ChatEvent] = []
        self.told: list[DealChatStatusChanged] = []
        self.counted = 0
        self.writes = 0
        self.exhaustions = 0
        self.last_attempt_at = NOW

    @initialize(
        title=st.sampled_from(["Flat 12", " "]),
        members=distinct_members | st.just([a_member()]),
        chat=st.none() | chats(usable=False),
        max_attempts=st.integers(min_value=1, max_value=3),
    )
    def deal_is_created(
        self, title: str, members: list[Member], chat: Chat | None, max_attempts: int
    ) -> None:
        if chat is not None:
            self._create_elsewhere(chat)
        self.provision = evolve(self.provision, title=title, members=tuple(members))
        self.limits = evolve(self.limits, max_attempts=max_attempts)

    # Rules have no preconditions but say themselves what they come to in every state: more of the steps then matter.

    @rule(seconds=st.integers(min_value=1, max_value=1200))
    def time_passes(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @rule(target=look_aheads)
    def runner_reads_ahead(self) -> MultipleResults[LookAhead] | LookAhead:
        return LookAhead(seen=self._snapshot(), as_of=self.now) if self._comes_due() else multiple()

    @rule(look_ahead=look_aheads, spread=spreads)
    def runner_acts_on_what_it_read(self, look_ahead: LookAhead, spread: float) -> None:
        written = self._attempt(look_ahead.seen, spread)
        if not written and self.provision.is_due(as_of=look_ahead.as_of, rules=self.limits):
            assert self._attempt(self._snapshot(), spread)

    @rule(spread=spreads)
    def runner_claims_and_attempts(self, spread: float) -> None:
        if self._comes_due():
            assert self._attempt(self._snapshot(), spread)
        else:
            with pytest.raises(IllegalTransition):
                self._attempt(self._snapshot(), spread)

    @rule(spread=spreads)
    def database_rejects_the_values(self, spread: float) -> None:
        if self._comes_due():
            seen = self._snapshot()
            verdict = refuse(seen.provision, REJECTED, now=self.now, spread=spread, rules=self.limits)
            assert self._settle(seen, verdict)

    @rule(status=st.sampled_from([ACTIVE, "Archived"]), kind=st.sampled_from(["Deal", "Deal", "Group"]))
    def somebody_else_creates_the_chat(self, status: str, kind: str) -> None:
        if not self.chats:
            chat = a_chat(id=self.new_id(), deal_id=self.provision.deal_id, status=status, kind=kind)
            self._create_elsewhere(chat)

    @rule(status=st.sampled_from([ACTIVE, "Archived"]))
    def chat_is_archived_or_revived(self, status: str) -> None:
        self.chats = [
            evolve(chat, status=status, kind="Deal", version=chat.version + 1) for chat in self.chats
        ]

    @rule(number=st.integers(min_value=11, max_value=20))
    def guest_joins_by_another_way(self, number: int) -> None:
        for chat in self.chats:
            guest = a_participant(some_id(number), "Guest", id=self.new_id(), chat_id=chat.id)
            self.participants.setdefault(guest.user_id, guest)

    @rule(number=st.integers(min_value=11, max_value=20))
    def somebody_leaves_the_chat(self, number: int) -> None:
        if (leaving := self.participants.get(some_id(number))) is not None:
            self.participants[leaving.user_id] = evolve(leaving, left_at=self.now)

    @rule()
    def operator_requeues(self) -> None:
        if self._open():
            self.provision = self.provision.requeued(now=self.now)
            self.writes += 1
            self.counted = 0
        else:
            with pytest.raises(IllegalTransition):
                self.provision.requeued(now=self.now)

    @rule()
    def operator_repairs_the_intent(self) -> None:
        if self._open():
            version = self.provision.version + 1
            self.provision = evolve(self.provision, title="Flat 12", members=(a_member(),), version=version)
            self.writes += 1

    # What must hold after every step

    @invariant()
    def ready_is_for_good_and_the_last_word(self) -> None:
        ready = [event for event in self.told if event.status is ProvisionStatus.READY]
        assert len(ready) == (self.provision.status is ProvisionStatus.READY)
        if ready:
            assert self.told[-1] == ready[0]
            assert ready[0].chat_id == self.provision.chat_id == self.chats[0].id
            assert self.provision.schedule.last_error is None

    @invariant()
    def every_exhaustion_is_told_once(self) -> None:
        failed = [event for event in self.told if event.status is ProvisionStatus.FAILED]
        assert len(failed) == self.exhaustions

    @invariant()
    def attempts_are_counted_and_bounded(self) -> None:
        assert self.provision.schedule.attempts == self.counted <= self.limits.max_attempts

    @invariant()
    def every_write_shows_in_the_version(self) -> None:
        assert self.provision.version == self.writes

    @invariant()
    def deal_has_one_chat_and_a_chat_that_was_made_here_one_feed_entry(self) -> None:
        assert len(self.chats) <= 1
        made_here = {chat.id for chat in self.chats} - self.made_elsewhere
        assert [entry.chat_id for entry in self.feed] == list(made_here)

    @invariant()
    def next_attempt_never_lies_before_the_last(self) -> None:
        assert self.provision.schedule.next_attempt_at >= self.last_attempt_at

    @invariant()
    def events_are_told_in_the_order_of_what_happened(self) -> None:
        times = [event.occurred_at for event in self.told]
        assert times == sorted(times)

    def teardown(self) -> None:
        """Healed, and given one more try, every provision converges."""
        if self._open():
            self.chat_is_archived_or_revived(ACTIVE)
            self.operator_repairs_the_intent()
            self.operator_requeues()
            self.runner_claims_and_attempts(0.0)
        assert self.provision.status is ProvisionStatus.READY

    # The store

    def _snapshot(self) -> ProvisionSnapshot:
        chat = self.chats[0] if self.chats else None
        return ProvisionSnapshot(
            provision=self.provision, chat=chat, participants=tuple(self.participants.values())
        )

    def _create_elsewhere(self, chat: Chat) -> None:
        self.chats.append(chat)
        self.made_elsewhere.add(chat.id)

    def _open(self) -> bool:
        return self.provision.status is not ProvisionStatus.READY

    def _comes_due(self) -> bool:
        """Let time pass until the row is due, if ever it will be."""
        waited_for = max(
            self.provision.schedule.next_attempt_at, self.provision.updated_at + self.limits.stuck_after
        )
        if not self.provision.is_due(as_of=self.now, rules=self.limits):
            self.now = max(self.now, waited_for)
        return self.provision.is_due(as_of=self.now, rules=self.limits)

    def _decide(self, seen: ProvisionSnapshot, spread: float) -> Verdict:
        return decide(seen, now=self.now, spread=spread, rules=self.limits, new_id=self.new_id)

    def _attempt(self, seen: ProvisionSnapshot, spread: float) -> bool:
        return self._settle(seen, self._decide(seen, spread))

    def _settle(self, seen: ProvisionSnapshot, verdict: Verdict) -> bool:
        """Write all of the verdict, or nothing when what it was decided on has changed since."""
        present = self._snapshot()
        if (seen.provision.version, seen.chat) != (present.provision.version, present.chat):
            return False
        self.provision = verdict.provision
        self.last_attempt_at = self.now
        self.writes += 1
        self.counted += 1
        if verdict.event is not None:
            self.told.append(verdict.event)
        if isinstance(verdict, Provisioned):
            self._write_chat(verdict)
        elif self.counted == self.limits.max_attempts:
            self.exhaustions += 1
        return True

    def _write_chat(self, verdict: Provisioned) -> None:
        before = {user_id for user_id, each in self.participants.items() if each.left_at is None}
        if verdict.new_chat is not None:
            self.chats.append(verdict.new_chat.chat)
            self.feed.append(verdict.new_chat.feed_entry)
        self.chats[0].ensure_usable_for_deal()
        for each in verdict.participants:
            there = self.participants.get(each.user_id)
            if there is None or there.left_at is not None:
                self.participants[each.user_id] = each
        present = {user_id for user_id, each in self.participants.items() if each.left_at is None}
        assert present >= before | {member.user_id for member in verdict.provision.members}
        assert {each.chat_id for each in self.participants.values()} == {self.chats[0].id}


TestProvisionLife = ProvisionLife.TestCase
