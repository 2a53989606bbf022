"""The CRM's messages that a deal was created."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

from tests.support.builders import BUYER, DEAL_ID, PROJECT_ID, SELLER, TENANT_ID, some_id

EVENT_ID = some_id(501)

Change = Callable[[dict[str, Any]], object]


def a_document(
    deal_id: UUID = DEAL_ID, *, event_id: UUID = EVENT_ID, title: str = "Flat 12"
) -> dict[str, Any]:
    """The message as the contract describes it, all optional fields present."""
    return {
        "eventId": str(event_id),
        "eventType": "DealCreated",
        "contractVersion": 1,
        "aggregateType": "Deal",
        "aggregateId": str(deal_id),
        "occurredAt": "2026-03-14T09:26:53.589793Z",
        "payload": {
            "dealId": str(deal_id),
            "title": title,
            "projectId": str(PROJECT_ID),
            "dealTenantId": str(TENANT_ID),
            "participants": [
                {"userId": str(BUYER), "role": "Buyer"},
                {"userId": str(SELLER), "role": "Seller"},
            ],
        },
    }


def a_message(
    deal_id: UUID = DEAL_ID,
    *changes: Change,
    event_id: UUID = EVENT_ID,
    title: str = "Flat 12",
) -> bytes:
    """Its bytes, after `changes` to the document."""
    document = a_document(deal_id, event_id=event_id, title=title)
    for change in changes:
        change(document)
    return json.dumps(document).encode()
