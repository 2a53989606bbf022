"""An outbox message in the envelope in which its readers get it."""

from __future__ import annotations

import json
from typing import Final

from .integration_events import CONTRACT_VERSION_HEADER, EVENT_ID_HEADER, EVENT_TYPE_HEADER, rfc3339
from .ports.event_publisher import Event
from .ports.outbox import OutboxMessage, StoredJson

_JSON: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))

UNSERIALISABLE: Final = "Envelope:UNSERIALISABLE"


class UnserialisableMessage(ValueError):
    """The message cannot be written as JSON in UTF-8, and never will be; tells nothing of its data."""

    code: Final = UNSERIALISABLE

    def __init__(self, message: OutboxMessage) -> None:
        super().__init__(f"message {message.event_id} cannot be written as JSON")


def envelope(message: OutboxMessage) -> Event:
    """The message's event: its envelope as JSON in UTF-8, its key, and its headers.

    ``event-id``, ``event-type`` and ``contract-version`` are always among the headers, and say what the envelope says;
    all others are the message's own. Raises `UnserialisableMessage`.
    """
    try:
        return _event(message)
    # What this says may quote the payload. AttributeError: a header of a host, or a time, that is none.
    except (TypeError, ValueError, RecursionError, AttributeError):
        raise UnserialisableMessage(message) from None


def _event(message: OutboxMessage) -> Event:
    event_id = str(message.event_id)
    content = {
        "eventId": event_id,
        "eventType": message.event_type,
        "contractVersion": message.contract_version,
        "aggregateType": message.aggregate_type,
        "aggregateId": message.aggregate_id,
        "occurredAt": rfc3339(message.occurred_at),
    }
    payload = message.payload
    text = payload.text if isinstance(payload, StoredJson) else _JSON.encode(payload)
    headers = {
        **message.headers,
        EVENT_ID_HEADER: event_id,
        EVENT_TYPE_HEADER: message.event_type,
        CONTRACT_VERSION_HEADER: str(message.contract_version),
    }
    return Event(
        topic=message.topic,
        key=message.message_key.encode(),
        value=f'{_JSON.encode(content)[:-1]},"payload":{text}}}'.encode(),
        headers=tuple([(name, value.encode()) for name, value in headers.items()]),
    )
