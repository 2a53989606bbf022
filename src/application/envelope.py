"""The envelope around every integration event on its topic."""

from __future__ import annotations

import json

from .integration_events import rfc3339
from .ports.outbox import JsonValue, OutboxMessage


def envelope(message: OutboxMessage) -> bytes:
    """The message's value on its topic: compact UTF-8 JSON with the payload inside the common envelope.

    The same for every publication of a message. Raises `ValueError` for a payload that JSON cannot hold.
    """
    document: dict[str, JsonValue] = {
        "eventId": str(message.event_id),
        "eventType": message.event_type,
        "contractVersion": message.contract_version,
        "aggregateType": message.aggregate_type,
        "aggregateId": message.aggregate_id,
        "occurredAt": rfc3339(message.occurred_at),
        "payload": dict(message.payload),
    }
    return json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
