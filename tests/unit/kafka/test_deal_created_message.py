from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest
from messenger_jobs.adapters.kafka.deal_created_message import (
    MAX_BYTES,
    MAX_PARTICIPANTS,
    Refusal,
    read_created_deal,
)
from messenger_jobs.application.provision_created_deal import CreatedDeal

from tests.support.builders import BUYER, DEAL_ID, PROJECT_ID, SELLER, TENANT_ID, a_member, some_id
from tests.support.deal_created_messages import EVENT_ID, Change, a_document, a_message

THE_DEAL = CreatedDeal(
    deal_id=DEAL_ID,
    title="Flat 12",
    project_id=PROJECT_ID,
    deal_tenant_id=TENANT_ID,
    members=(a_member(BUYER), a_member(SELLER, "Seller")),
    event_id=EVENT_ID,
    correlation_id=EVENT_ID,
)


def setting(*path: str | int, to: object) -> Change:
    def change(document: dict[str, Any]) -> None:
        target: Any = document
        for name in path[:-1]:
            target = target[name]
        target[path[-1]] = to

    return change


def without(*path: str | int) -> Change:
    def change(document: dict[str, Any]) -> None:
        target: Any = document
        for name in path[:-1]:
            target = target[name]
        del target[path[-1]]

    return change


def read(*changes: Change) -> CreatedDeal | Refusal:
    return read_created_deal(a_message(DEAL_ID, *changes))


def test_message_is_read() -> None:
    assert read() == THE_DEAL


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(without("payload", "projectId"), id="absent"),
        pytest.param(setting("payload", "projectId", to=None), id="null"),
    ],
)
def test_optional_field_may_be_missing(change: Change) -> None:
    deal = read(change)
    assert isinstance(deal, CreatedDeal)
    assert (deal.project_id, deal.deal_tenant_id) == (None, TENANT_ID)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(setting("region", to={"a": [1e999, "\ud800", "\0"]}), id="in the envelope"),
        pytest.param(setting("payload", "price", to=10**40), id="in the payload"),
        pytest.param(setting("payload", "participants", 0, "phone", to="+1"), id="of a participant"),
    ],
)
def test_unknown_fields_are_ignored(change: Change) -> None:
    document = a_document()
    change(document)
    assert read_created_deal(json.dumps(document).replace("Infinity", "1e999").encode()) == THE_DEAL


@pytest.mark.parametrize("field", ["aggregateType", "aggregateId"])
def test_what_is_not_needed_may_be_missing(field: str) -> None:
    assert read(without(field)) == THE_DEAL


def test_empty_title_and_no_participants_are_for_the_attempt_to_refuse() -> None:
    deal = read(setting("payload", "title", to=""), setting("payload", "participants", to=[]))
    assert isinstance(deal, CreatedDeal)
    assert (deal.title, deal.members) == ("", ())


def test_participants_stand_as_sent() -> None:
    twice = [{"userId": str(BUYER), "role": role} for role in ("Buyer", "Agent", "Buyer")]
    deal = read(setting("payload", "participants", to=twice))
    assert isinstance(deal, CreatedDeal)
    assert [member.role for member in deal.members] == ["Buyer", "Agent", "Buyer"]


@pytest.mark.parametrize(
    "value",
    [
        "2026-03-14T09:26:53Z",
        "2026-03-14T09:26:53.5897931Z",
        "2026-03-14t09:26:53.589793123z",
        "2026-03-14T14:56:53+05:30",
    ],
)
def test_times_may_be_written_in_every_way_of_the_rfc(value: str) -> None:
    assert read(setting("occurredAt", to=value)) == THE_DEAL


def test_ids_may_be_in_capitals_and_the_text_may_begin_with_a_byte_order_mark() -> None:
    capital = UUID("ABCDEF00-0000-4000-8000-00000000000F")
    deal = read_created_deal(
        b"\xef\xbb\xbf" + a_message(DEAL_ID, setting("eventId", to=str(capital).upper()))
    )
    assert isinstance(deal, CreatedDeal)
    assert deal.event_id == capital


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        pytest.param([("correlation-id", str(some_id(9)).encode())], some_id(9), id="a header"),
        pytest.param(
            [("correlation-id", b"x"), ("correlation-id", str(some_id(9)).encode())], some_id(9), id="last"
        ),
        pytest.param([("correlation-id", b"\xff\xfe")], EVENT_ID, id="not readable"),
        pytest.param([("correlation-id", None)], EVENT_ID, id="null"),
        pytest.param([("event-id", b"x")], EVENT_ID, id="none"),
    ],
)
def test_correlation_id_is_the_headers_else_the_events(
    headers: list[tuple[str, bytes | None]], expected: UUID
) -> None:
    deal = read_created_deal(a_message(), headers)
    assert isinstance(deal, CreatedDeal)
    assert deal.correlation_id == expected


@pytest.mark.parametrize(
    ("value", "code"),
    [
        pytest.param(None, "EMPTY", id="no value"),
        pytest.param(b"", "EMPTY", id="empty"),
        pytest.param(b" " * (MAX_BYTES + 1), "TOO_LARGE", id="large"),
        pytest.param(b"\xff\xfe{\x00}\x00", "NOT_UTF8", id="UTF-16"),
        pytest.param(b"{}\xc3", "NOT_UTF8", id="cut off"),
        pytest.param(b"deal", "NOT_JSON", id="text"),
        pytest.param(b"{} {}", "NOT_JSON", id="two documents"),
        pytest.param(b'{"a": NaN}', "NOT_JSON", id="NaN"),
        pytest.param(b'{"a": -Infinity}', "NOT_JSON", id="infinity"),
        pytest.param(b'{"a": ' + b"9" * 10_000 + b"}", "NOT_JSON", id="huge number"),
        pytest.param(b"[" * 200_000, "TOO_DEEP", id="nested lists"),
        pytest.param(b'{"a":' * 200_000, "TOO_DEEP", id="nested objects"),
        pytest.param(b'{"a": {"b": 1, "b": 1}}', "DUPLICATE_KEY", id="duplicate field"),
        pytest.param(b"[]", "NOT_AN_OBJECT", id="list"),
        pytest.param(b"null", "NOT_AN_OBJECT", id="null"),
        pytest.param(b"{}", "FIELD_MISSING", id="empty object"),
    ],
)
def test_what_is_no_message_is_refused(value: bytes | None, code: str) -> None:
    refusal = read_created_deal(value)
    assert isinstance(refusal, Refusal)
    assert refusal.code == f"Message:{code}"


MEMBER = ("payload", "participants", 1)


@pytest.mark.parametrize(
    ("change", "code", "named"),
    [
        pytest.param(
            setting("contractVersion", to=2), "UNKNOWN_CONTRACT_VERSION", "contractVersion", id="v2"
        ),
        pytest.param(setting("contractVersion", to="1"), "WRONG_TYPE", "contractVersion", id="text v1"),
        pytest.param(setting("contractVersion", to=True), "WRONG_TYPE", "contractVersion", id="true is no 1"),
        pytest.param(setting("contractVersion", to=1.0), "WRONG_TYPE", "contractVersion", id="1.0 is no 1"),
        pytest.param(without("contractVersion"), "FIELD_MISSING", "contractVersion", id="no version"),
        pytest.param(setting("eventType", to="DealClosed"), "UNKNOWN_EVENT_TYPE", "eventType", id="event"),
        pytest.param(setting("eventType", to=1), "WRONG_TYPE", "eventType", id="event number"),
        pytest.param(without("eventId"), "FIELD_MISSING", "eventId", id="no event id"),
        pytest.param(setting("eventId", to="{" + str(EVENT_ID) + "}"), "NOT_A_UUID", "eventId", id="braces"),
        pytest.param(setting("eventId", to=EVENT_ID.hex), "NOT_A_UUID", "eventId", id="no hyphens"),
        pytest.param(setting("eventId", to=5), "WRONG_TYPE", "eventId", id="id number"),
        pytest.param(setting("eventId", to=str(EVENT_ID) + "\n"), "NOT_A_UUID", "eventId", id="line end"),
        pytest.param(without("occurredAt"), "FIELD_MISSING", "occurredAt", id="no time"),
        pytest.param(setting("occurredAt", to="2026-03-14T09:26:53"), "NOT_A_TIME", "occurredAt", id="naive"),
        pytest.param(
            setting("occurredAt", to="2026-02-30T09:26:53Z"), "NOT_A_TIME", "occurredAt", id="30.2."
        ),
        pytest.param(setting("occurredAt", to="2026-W11-6T09:26:53Z"), "NOT_A_TIME", "occurredAt", id="week"),
        pytest.param(setting("occurredAt", to=1773480413), "WRONG_TYPE", "occurredAt", id="unix time"),
        pytest.param(without("payload"), "FIELD_MISSING", "payload", id="no payload"),
        pytest.param(setting("payload", to=None), "NOT_AN_OBJECT", "payload", id="null payload"),
        pytest.param(setting("payload", to=[]), "NOT_AN_OBJECT", "payload", id="payload list"),
        pytest.param(without("payload", "dealId"), "FIELD_MISSING", "payload.dealId", id="no deal"),
        pytest.param(setting("payload", "dealId", to=None), "WRONG_TYPE", "payload.dealId", id="null deal"),
        pytest.param(without("payload", "title"), "FIELD_MISSING", "payload.title", id="no title"),
        pytest.param(setting("payload", "title", to=12), "WRONG_TYPE", "payload.title", id="title number"),
        pytest.param(setting("payload", "title", to=None), "WRONG_TYPE", "payload.title", id="null title"),
        pytest.param(setting("payload", "title", to="x" * 257), "TITLE_TOO_LONG", "title", id="long title"),
        pytest.param(setting("payload", "title", to="\0"), "UNSTORABLE_TEXT", "payload.title", id="NUL"),
        pytest.param(
            setting("payload", "title", to="\ud83d"), "UNSTORABLE_TEXT", "payload.title", id="half an emoji"
        ),
        pytest.param(setting("payload", "projectId", to=""), "NOT_A_UUID", "payload.projectId", id="project"),
        pytest.param(
            setting("payload", "dealTenantId", to=False), "WRONG_TYPE", "payload.dealTenantId", id="tenant"
        ),
        pytest.param(
            without("payload", "participants"), "FIELD_MISSING", "payload.participants", id="no participants"
        ),
        pytest.param(
            setting("payload", "participants", to={}), "WRONG_TYPE", "payload.participants", id="object"
        ),
        pytest.param(
            setting("payload", "participants", to="ab"), "WRONG_TYPE", "payload.participants", id="text"
        ),
        pytest.param(
            setting("payload", "participants", to=[{}] * (MAX_PARTICIPANTS + 1)),
            "TOO_MANY_PARTICIPANTS",
            "payload.participants",
            id="too many",
        ),
        pytest.param(setting(*MEMBER, to=7), "NOT_AN_OBJECT", "payload.participants[1]", id="member"),
        pytest.param(
            without(*MEMBER, "userId"), "FIELD_MISSING", "payload.participants[1].userId", id="no user"
        ),
        pytest.param(
            setting(*MEMBER, "role", to=None), "WRONG_TYPE", "payload.participants[1].role", id="null role"
        ),
        pytest.param(
            setting(*MEMBER, "role", to=""), "UNSTORABLE_ROLE", "payload.participants[1]", id="empty role"
        ),
        pytest.param(
            setting(*MEMBER, "role", to="x" * 33),
            "UNSTORABLE_ROLE",
            "payload.participants[1]",
            id="long role",
        ),
        pytest.param(
            setting(*MEMBER, "role", to="a\0"),
            "UNSTORABLE_TEXT",
            "payload.participants[1].role",
            id="NUL role",
        ),
    ],
)
def test_what_does_not_keep_the_contract_is_refused_by_the_name_of_the_field(
    change: Change, code: str, named: str
) -> None:
    refusal = read(change)
    assert isinstance(refusal, Refusal)
    assert refusal.code == f"Message:{code}"
    assert named in refusal.sentence


def test_other_versions_are_not_held_to_this_ones_fields() -> None:
    refusal = read(setting("contractVersion", to=2), without("payload"), without("eventId"))
    assert isinstance(refusal, Refusal)
    assert refusal.code == "Message:UNKNOWN_CONTRACT_VERSION"


def test_refusal_says_nothing_of_what_the_message_says() -> None:
    secret = "Ivan-Petrov-and-his-flat"
    for change in (
        setting("payload", "title", to=secret * 20),
        setting("payload", "dealId", to=secret),
        setting("occurredAt", to=secret),
        setting(*MEMBER, "role", to=secret * 2),
        setting("eventType", to=secret),
    ):
        refusal = read(change)
        assert isinstance(refusal, Refusal)
        assert "Ivan" not in refusal.code + refusal.sentence
