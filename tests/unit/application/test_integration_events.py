from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from attrs import evolve
from messenger_jobs.application.integration_events import deal_chat_status_changed, rfc3339
from messenger_jobs.application.ports.outbox import OutboxMessage
from messenger_jobs.domain.deal_chat_provision import DealChatStatusChanged, ProvisionStatus

from tests.support.builders import CHAT_ID, DEAL_ID, NOW, some_id

EVENT_ID, RUN_ID = some_id(21), some_id(22)
READY = DealChatStatusChanged(deal_id=DEAL_ID, chat_id=CHAT_ID, status=ProvisionStatus.READY, occurred_at=NOW)


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (datetime(2026, 5, 1, 10, tzinfo=UTC), "2026-05-01T10:00:00.000000Z"),
        (datetime(2026, 5, 1, 10, 0, 0, 1, tzinfo=UTC), "2026-05-01T10:00:00.000001Z"),
        (datetime(2026, 1, 1, 1, 30, tzinfo=timezone(timedelta(hours=5))), "2025-12-31T20:30:00.000000Z"),
    ],
)
def test_times_are_utc_with_microseconds(moment: datetime, text: str) -> None:
    assert rfc3339(moment) == text


def test_status_message_is_the_published_contract() -> None:
    assert deal_chat_status_changed(READY, event_id=EVENT_ID, correlation_id=RUN_ID) == OutboxMessage(
        event_id=EVENT_ID,
        topic="pin.messenger.deal-chat-status-changed.v1",
        message_key=str(DEAL_ID),
        aggregate_type="DealChatProvision",
        aggregate_id=str(DEAL_ID),
        event_type="DealChatStatusChanged",
        contract_version=1,
        payload={
            "dealId": str(DEAL_ID),
            "chatId": str(CHAT_ID),
            "status": "Ready",
            "occurredAt": "2026-03-14T09:26:53.589793Z",
        },
        headers={
            "event-id": str(EVENT_ID),
            "event-type": "DealChatStatusChanged",
            "contract-version": "1",
            "correlation-id": str(RUN_ID),
        },
        occurred_at=NOW,
        dedupe_key=None,
    )


def test_failure_without_a_chat_names_none() -> None:
    failed = evolve(READY, status=ProvisionStatus.FAILED, chat_id=None)
    message = deal_chat_status_changed(failed, event_id=EVENT_ID, correlation_id=RUN_ID)
    assert message.payload == {
        "dealId": str(DEAL_ID),
        "status": "Failed",
        "occurredAt": "2026-03-14T09:26:53.589793Z",
    }
