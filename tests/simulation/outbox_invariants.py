"""What must never happen to messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from uuid import UUID

from tests.simulation.monitor import Change, Invariant


def order_within_a_key_lost(change: Change) -> Iterator[str]:
    for row in change.new_messages:
        for other in change.before.outbox.values():
            about = (other.message.topic, other.message.aggregate_type, _subject(other.message.payload))
            same = about == (row.message.topic, row.message.aggregate_type, _subject(row.message.payload))
            if same and other.id > row.id:
                yield f"message {row.id} was committed after {other.id}"


def message_changed(change: Change) -> Iterator[str]:
    for step in change.outbox:
        before, after = step.before, step.after
        if before is None:
            continue
        if after is None:
            yield f"message {before.id} is gone"
        elif after.message != before.message or after.created_at != before.created_at:
            yield f"message {before.id} says something else"
        elif before.published_at is not None and after != before:
            yield f"message {before.id} has lost its receipt"
        elif before.dead_at is not None and after.published_at is not None:
            yield f"message {before.id} was parked, and is published"


def message_contradicts_its_row(change: Change) -> Iterator[str]:
    for row in change.new_messages:
        message = row.message
        said = (
            message.headers.get("event-id"),
            message.headers.get("event-type"),
            message.headers.get("contract-version"),
        )
        if said != (str(message.event_id), message.event_type, str(message.contract_version)):
            yield f"message {row.id} says {said}"
        if row.published_at is not None or row.attempts:
            yield f"message {row.id} is not new"


def published_unacknowledged(change: Change) -> Iterator[str]:
    broker = change.world.broker
    for step in change.outbox:
        before, after = step.before, step.after
        if after is None or before is None or before.published_at is not None or after.published_at is None:
            continue
        offset = after.published_offset
        if (
            offset is None
            or not 0 <= offset < len(broker.log)
            or broker.log[offset] != after.message.event_id
        ):
            yield f"message {after.id} has the receipt {after.published_partition}/{offset}"


def parked_for_no_reason(change: Change) -> Iterator[str]:
    for step in change.outbox:
        before, after = step.before, step.after
        if after is None or before is None or change.by is None:
            continue
        parked = before.dead_at is None and after.dead_at is not None
        if parked and after.message.event_id not in change.world.broker.refused:
            yield f"message {after.id}"


def attempt_counted_for_an_outage(change: Change) -> Iterator[str]:
    for step in change.outbox:
        before, after = step.before, step.after
        counted = before is not None and after is not None and after.attempts > before.attempts
        if counted and after is not None and after.message.event_id not in change.world.broker.troubled:
            yield f"message {after.id}"


def published_out_of_order(change: Change) -> Iterator[str]:
    """Duplicates may come at any time; the first time that each message is seen is what counts."""
    first: dict[UUID, int] = {}
    for place, event_id in enumerate(change.world.broker.log):
        first.setdefault(event_id, place)
    rows = [row for row in change.after.outbox.values() if row.message.event_id in first]
    for row in rows:
        for earlier in change.after.outbox.values():
            if earlier.id >= row.id or earlier.message.event_id in change.world.broker.refused:
                continue
            message, other = row.message, earlier.message
            if (message.topic, message.message_key) != (other.topic, other.message_key):
                continue
            if first.get(other.event_id, len(change.world.broker.log)) > first[message.event_id]:
                yield f"message {row.id} before {earlier.id}"


def _subject(payload: object) -> object:
    """What the message is about: two recordings of one session do not follow one another."""
    return payload.get("recordingId") or payload.get("dealId") if isinstance(payload, dict) else None


_OUTBOX: Final = frozenset({"outbox"})

OUTBOX_INVARIANTS: Final = (
    Invariant(2, "only what the broker has is marked as published", published_unacknowledged, _OUTBOX),
    Invariant(8, "only what the broker refuses for good is parked", parked_for_no_reason, _OUTBOX),
    Invariant(
        5, "only what a message is to blame for counts against it", attempt_counted_for_an_outage, _OUTBOX
    ),
    Invariant(8, "events of one key are published in order", published_out_of_order, _OUTBOX),
    Invariant(8, "messages about one thing are numbered as committed", order_within_a_key_lost, _OUTBOX),
    Invariant(2, "a message stays as it was committed", message_changed, _OUTBOX),
    Invariant(2, "a message says what its row says", message_contradicts_its_row, _OUTBOX),
)
