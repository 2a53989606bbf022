from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from messenger_jobs.application.event_envelope import UnserialisableMessage, envelope
from messenger_jobs.application.integration_events import deal_chat_status_changed
from messenger_jobs.application.ports.outbox import StoredJson
from messenger_jobs.domain.deal_chat_provision import DealChatStatusChanged, ProvisionStatus

from tests.support.builders import CHAT_ID, DEAL_ID, NOW, some_id
from tests.support.outbox_rows import an_outbox_message


def value_of(message: Any) -> dict[str, Any]:
    value = envelope(message).value
    assert value is not None
    parsed: dict[str, Any] = json.loads(value)
    return parsed


def test_envelope_of_our_own_event_is_the_contract_to_the_byte() -> None:
    event = DealChatStatusChanged(
        deal_id=DEAL_ID, chat_id=CHAT_ID, status=ProvisionStatus.READY, occurred_at=NOW
    )
    message = deal_chat_status_changed(event, event_id=some_id(7), correlation_id=some_id(8))
    sent = envelope(message)
    assert sent.topic == "pin.messenger.deal-chat-status-changed.v1"
    assert sent.key == str(DEAL_ID).encode()
    assert sent.value == (
        b'{"eventId":"00000000-0000-0000-0000-000000000007","eventType":"DealChatStatusChanged",'
        b'"contractVersion":1,"aggregateType":"DealChatProvision",'
        b'"aggregateId":"00000000-0000-0000-0000-000000000001",'
        b'"occurredAt":"2026-03-14T09:26:53.589793Z","payload":{'
        b'"dealId":"00000000-0000-0000-0000-000000000001","status":"Ready",'
        b'"occurredAt":"2026-03-14T09:26:53.589793Z","chatId":"00000000-0000-0000-0000-000000000003"}}'
    )
    assert dict(sent.headers) == {
        "event-id": b"00000000-0000-0000-0000-000000000007",
        "event-type": b"DealChatStatusChanged",
        "contract-version": b"1",
        "correlation-id": b"00000000-0000-0000-0000-000000000008",
    }


def test_other_headers_of_the_message_go_with_it() -> None:
    message = an_outbox_message(headers={"traceparent": "00-1-2-01", "correlation-id": "run", "tenant": "Ж"})
    headers = dict(envelope(message).headers)
    assert headers["traceparent"] == b"00-1-2-01"
    assert headers["tenant"] == "Ж".encode()


def test_headers_never_contradict_the_envelope() -> None:
    message = an_outbox_message(7, headers={"event-id": "x", "event-type": "x", "contract-version": "9"})
    sent = envelope(message)
    names = [name for name, _ in sent.headers]
    assert sorted(names) == ["contract-version", "event-id", "event-type"]
    assert dict(sent.headers)["event-id"] == str(some_id(7)).encode()


def test_time_of_the_transition_is_utc_with_microseconds_whatever_it_was_given_in() -> None:
    kolkata = timezone(timedelta(hours=5, minutes=30))
    message = an_outbox_message(occurred_at=datetime(2026, 3, 14, 15, 0, 0, tzinfo=kolkata))
    assert value_of(message)["occurredAt"] == "2026-03-14T09:30:00.000000Z"


def test_text_is_utf8_and_not_escaped() -> None:
    value = envelope(an_outbox_message(payload={"text": "Ж \U0001f600 \\"})).value
    assert value is not None
    assert "Ж \U0001f600 \\\\".encode() in value


def test_numbers_keep_their_kind() -> None:
    payload = {"int": 2**60, "float": 1.5, "bool": True, "null": None, "list": [1, {"n": -1}]}
    assert value_of(an_outbox_message(payload=payload))["payload"] == payload


def test_payload_that_a_database_has_written_goes_as_it_is() -> None:
    text = '{"amount": 1.10, "size": 18446744073709551617, "text": "Ж"}'
    sent = envelope(an_outbox_message(payload=StoredJson(text)))
    assert sent.value is not None
    assert sent.value.endswith(f',"payload":{text}}}'.encode())
    assert value_of(an_outbox_message(payload=StoredJson("{}")))["payload"] == {}


def test_stored_payload_can_be_looked_into() -> None:
    stored = StoredJson('{"dealId": "1", "size": 2}')
    assert stored == {"dealId": "1", "size": 2}
    assert (stored["size"], len(stored), list(stored)) == (2, 2, ["dealId", "size"])


NO_JSON: dict[str, dict[str, Any]] = {
    "not a number": {"payload": {"x": float("nan")}},
    "infinite": {"payload": {"x": float("inf")}},
    "not of JSON": {"payload": {"x": object()}},
    "name that is no text": {"payload": {("a", "b"): 1}},
    "number too long for text": {"payload": {"x": 10**5000}},
    "half a character": {"payload": {"x": "\ud83d"}},
    "header that is no text": {"headers": {"x": 1}},
    "header with half a character": {"headers": {"x": "\udc00"}},
    "key with half a character": {"message_key": "\udc00"},
}


@pytest.mark.parametrize("fault", NO_JSON)
def test_what_is_no_json_is_refused_without_telling_what_it_was(fault: str) -> None:
    with pytest.raises(UnserialisableMessage) as refusal:
        envelope(an_outbox_message(7, **NO_JSON[fault]))
    assert refusal.value.code == "Envelope:UNSERIALISABLE"
    assert str(refusal.value) == f"message {some_id(7)} cannot be written as JSON"
    assert refusal.value.__suppress_context__


def test_endless_nesting_is_refused() -> None:
    payload: dict[str, Any] = {}
    payload["itself"] = payload
    deep: dict[str, Any] = {}
    for _ in range(200_000):
        deep = {"x": deep}
    for endless in (payload, deep):
        with pytest.raises(UnserialisableMessage):
            envelope(an_outbox_message(payload=endless))
    while deep:  # taken apart by hand: freeing it at once would overflow the stack too
        deep = deep.pop("x")
