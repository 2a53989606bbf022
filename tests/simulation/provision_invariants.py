"""What must never happen to deal chats."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from messenger_jobs.adapters.memory.schema import OutboxRow, ProvisionRow
from messenger_jobs.application.integration_events import rfc3339
from messenger_jobs.domain.chat import DEAL_CHAT_PROVISIONED, DEAL_KIND

from tests.simulation.monitor import Change, Invariant, Snapshot
from tests.simulation.names import named
from tests.simulation.world import BACKOFF, MAX_ATTEMPTS

LAST_ERROR: Final = re.compile(r"[A-Za-z0-9_.-]+:[A-Za-z0-9_.-]+")
REQUEUES: Final = "requeue-provisions"
"""The application that may set attempts to zero."""


def _exhausted(row: ProvisionRow | None) -> bool:
    return row is not None and row.status == "Failed" and row.attempts >= MAX_ATTEMPTS


def _told(rows: Snapshot, row: ProvisionRow, status: str) -> list[OutboxRow]:
    deal_id = str(row.deal_id)
    return [
        each
        for each in rows.outbox.values()
        if each.message.aggregate_id == deal_id and each.message.payload["status"] == status
    ]


def deal_has_two_chats(change: Change) -> Iterator[str]:
    deals = [chat.deal_id for chat in change.after.chats.values() if chat.deal_id is not None]
    for deal in deals:
        if deals.count(deal) > 1:
            yield named(deal)


def chat_is_not_told_of_once(change: Change) -> Iterator[str]:
    told = [each.chat_id for each in change.after.feed.values() if each.type == DEAL_CHAT_PROVISIONED]
    for chat_id in set(told):
        if told.count(chat_id) > 1:
            yield f"{named(chat_id)} twice"
    if change.by is None:
        return
    for step in change.chats:
        if step.before is None and step.after is not None and step.after.id not in told:
            yield f"{named(step.after.id)} never"


def ready_without_its_chat(change: Change) -> Iterator[str]:
    for step in change.provisions:
        row = step.after
        if row is None or row.status != "Ready":
            continue
        chat = None if row.chat_id is None else change.after.chats.get(row.chat_id)
        if chat is None or chat.deal_id != row.deal_id or chat.kind != DEAL_KIND:
            yield f"{named(row.id)} has no chat of its deal"
            continue
        there = {each.user_id for each in change.after.participants.values() if each.chat_id == chat.id}
        for member in change.after.members.values():
            if member.provision_id == row.id and member.user_id not in there:
                yield f"{named(row.id)} without {named(member.user_id)}"


def change_without_its_message(change: Change) -> Iterator[str]:
    for step in change.provisions:
        row, before = step.after, step.before
        if row is None or change.by is None:
            continue
        new = [each.message for each in change.new_messages if each.message.aggregate_id == str(row.deal_id)]
        became_ready = row.status == "Ready" and (before is None or before.status != "Ready")
        became_poison = _exhausted(row) and not _exhausted(before)
        wanted = ["Ready"] if became_ready else ["Failed"] if became_poison else []
        if [message.payload["status"] for message in new] != wanted:
            yield f"{named(row.id)} tells {[message.payload['status'] for message in new]}, not {wanted}"
        for message in new:
            if message.payload["occurredAt"] != rfc3339(row.updated_at):
                yield f"{named(row.id)} tells another time than that of its transition"
            if message.payload.get("chatId") != (None if row.chat_id is None else str(row.chat_id)):
                yield f"{named(row.id)} tells of another chat than its own"


def message_without_its_change(change: Change) -> Iterator[str]:
    changed = {str(step.after.deal_id) for step in change.provisions if step.after is not None}
    for row in change.new_messages:
        message = row.message
        if message.aggregate_type == "DealChatProvision" and message.aggregate_id not in changed:
            yield f"message {row.id} about a deal whose provision did not change"


def ready_or_poison_told_wrongly(change: Change) -> Iterator[str]:
    for row in change.after.provisions.values():
        ready, failed = _told(change.after, row, "Ready"), _told(change.after, row, "Failed")
        if len(ready) != (row.status == "Ready"):
            yield f"{named(row.id)} is {row.status} and was told ready {len(ready)} times"
        if _exhausted(row) and not failed:
            yield f"{named(row.id)} is poison, and nobody knows"
        if ready and failed and max(each.id for each in failed) > ready[0].id:
            yield f"{named(row.id)} is told failed after ready"


def left_ready(change: Change) -> Iterator[str]:
    for step in change.provisions:
        if step.before is not None and step.before.status == "Ready":
            yield named(step.before.id)


def version_stood_still(change: Change) -> Iterator[str]:
    for step in change.provisions:
        if (
            step.before is not None
            and step.after is not None
            and step.after.version != step.before.version + 1
        ):
            yield f"{named(step.after.id)}: {step.before.version} to {step.after.version}"


def attempt_counted_for_no_reason(change: Change) -> Iterator[str]:
    for step in change.provisions:
        row, before, by = step.after, step.before, change.by
        if row is None or by is None:
            continue
        counted = row.attempts - (before.attempts if before is not None else 0)
        if by.name.startswith(REQUEUES):
            if row.attempts != 0 or row.status != (before.status if before else None):
                yield f"{named(row.id)} was requeued to {row.status} with {row.attempts} attempts"
        elif counted != 1:
            yield f"{named(row.id)} counts {counted}"
        elif row.status != "Ready":
            yield from _unfounded_refusal(change, row)


def attempt_counted_twice_in_a_cycle(change: Change) -> Iterator[str]:
    for step in change.provisions:
        row, by = step.after, change.by
        if row is None or by is None or not by.name.startswith("chat-job"):
            continue
        if row.id in by.facts.counted:
            yield f"{named(row.id)} by {by.name}"
        by.facts.counted.add(row.id)


def _unfounded_refusal(change: Change, row: ProvisionRow) -> Iterator[str]:
    error, by = row.last_error or "", change.by
    if error.startswith("ProvisionGuard:"):
        if row.deal_id not in change.world.refusable:
            yield f"{named(row.id)} was refused with {error}, which it gave no reason for"
    elif not (error.startswith("Postgres:") and by is not None and by.facts.rejections):
        yield f"{named(row.id)} was refused with {error!r}"


def more_attempts_than_allowed(change: Change) -> Iterator[str]:
    for row in change.after.provisions.values():
        if row.attempts > MAX_ATTEMPTS:
            yield f"{named(row.id)} has {row.attempts}"


def schedule_off_the_backoff(change: Change) -> Iterator[str]:
    for step in change.provisions:
        row = step.after
        if row is None or change.by is None or change.by.name.startswith(REQUEUES) or row.attempts == 0:
            continue
        longest = BACKOFF.delay(row.attempts, 0.0)
        delay = row.next_attempt_at - row.updated_at
        if not longest * (1 - BACKOFF.jitter) <= delay <= longest:
            yield f"{named(row.id)} waits for {delay} after attempt {row.attempts}"


def last_error_says_too_much(change: Change) -> Iterator[str]:
    for row in change.after.provisions.values():
        if row.last_error is not None and not LAST_ERROR.fullmatch(row.last_error):
            yield f"{named(row.id)}: {row.last_error!r}"


def participant_disturbed(change: Change) -> Iterator[str]:
    for step in change.participants:
        before = step.before
        if change.by is None or before is None:
            continue
        if step.after is None or before.left_at is None or step.after.left_at is not None:
            yield f"{named(before.user_id)} in {named(before.chat_id)}"


_ROWS: Final = frozenset({"provisions", "outbox"})
_CHATS: Final = frozenset({"chats", "feed"})
_PEOPLE: Final = frozenset({"participants"})

PROVISION_INVARIANTS: Final = (
    Invariant(1, "a deal has one chat", deal_has_two_chats, _CHATS),
    Invariant(1, "a chat that was made here tells so once", chat_is_not_told_of_once, _CHATS),
    Invariant(
        1, "a ready provision has its deal's chat and members", ready_without_its_chat, _ROWS | _PEOPLE
    ),
    Invariant(2, "Ready and poison are told in their own commit", change_without_its_message, _ROWS),
    Invariant(2, "nothing is told that did not happen", message_without_its_change, _ROWS),
    Invariant(2, "what is told is what is the case", ready_or_poison_told_wrongly, _ROWS),
    Invariant(3, "nothing leaves Ready", left_ready, _ROWS),
    Invariant(3, "every write shows in the version", version_stood_still, _ROWS),
    Invariant(5, "an attempt is counted for a reason", attempt_counted_for_no_reason, _ROWS),
    Invariant(5, "attempts stay within their bound", more_attempts_than_allowed, _ROWS),
    Invariant(5, "the schedule follows the backoff", schedule_off_the_backoff, _ROWS),
    Invariant(6, "a row is tried once per cycle", attempt_counted_twice_in_a_cycle, _ROWS),
    Invariant(10, "a last error is a class and a code", last_error_says_too_much, _ROWS),
    Invariant(11, "nobody is removed or changed who is there", participant_disturbed, _PEOPLE),
)
