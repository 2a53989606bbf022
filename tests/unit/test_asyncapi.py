"""The published contract, docs/asyncapi.yaml, held against what the code sends and takes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from aiokafka.structs import ConsumerRecord  # type: ignore[import-untyped]  # ships no types
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.protocols import Validator
from messenger_jobs.adapters.kafka.deal_created_dead_letter import (
    DEAL_CREATED_GROUP,
    DEAL_CREATED_TOPIC,
    dead_letter_topic,
    letter_without_value,
    whole_letter,
)
from messenger_jobs.adapters.kafka.deal_created_message import Refusal, read_created_deal
from messenger_jobs.application.event_envelope import envelope
from messenger_jobs.application.integration_events import (
    CALL_RECORDING_AVAILABLE_TOPIC,
    DEAL_CHAT_STATUS_CHANGED_TOPIC,
    call_recording_available,
    deal_chat_status_changed,
)
from messenger_jobs.application.ports.consumer_telemetry import DeadLetter
from messenger_jobs.application.ports.event_publisher import Event
from messenger_jobs.domain.call_recording import (
    MediaType,
    RecordingAvailable,
    RecordingStatus,
    SessionKind,
)
from messenger_jobs.domain.deal_chat_provision import DealChatStatusChanged, ProvisionStatus
from messenger_jobs.domain.evidence import RecordingFormat

from tests.support.builders import CHAT_ID, DEAL_ID, NOW, some_id
from tests.support.recordings import MEDIA, a_recording

FILE = Path(__file__).parents[2] / "docs" / "asyncapi.yaml"
DOCUMENT: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
MESSAGES: dict[str, Any] = DOCUMENT["components"]["messages"]
SCHEMAS: dict[str, Any] = DOCUMENT["components"]["schemas"]
RUN_ID = some_id(901)
EVENT_ID = some_id(902)

formats = FormatChecker(["uuid"])


@formats.checks("date-time", raises=ValueError)
def is_time_with_offset(value: object) -> bool:
    return datetime.fromisoformat(str(value)).tzinfo is not None


def validator(schema: Mapping[str, Any]) -> Validator:
    return Draft202012Validator({**schema, "components": DOCUMENT["components"]}, format_checker=formats)


def undocumented(schema: Mapping[str, Any], value: object) -> Iterator[str]:
    """Fields of objects that no part of the schema speaks of."""
    if not isinstance(value, dict):
        return
    known: dict[str, list[Mapping[str, Any]]] = {}
    for part in parts(schema):
        for name, of_field in part.get("properties", {}).items():
            known.setdefault(name, []).append(of_field)
    for name, inner in cast("dict[str, object]", value).items():
        if name not in known:
            yield name
        yield from undocumented({"allOf": known.get(name, [])}, inner)


def parts(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if "$ref" in schema:
        yield from parts(SCHEMAS[schema["$ref"].rpartition("/")[2]])
    yield schema
    for part in schema.get("allOf", []):
        yield from parts(part)


def assert_is(event: Event, message: str) -> None:
    assert event.value is not None
    content = json.loads(event.value)
    headers = {name: value.decode() for name, value in event.headers}
    validator(MESSAGES[message]["payload"]).validate(content)
    validator(MESSAGES[message]["headers"]).validate(headers)
    assert [*undocumented(MESSAGES[message]["payload"], content)] == []
    assert [*undocumented(MESSAGES[message]["headers"], headers)] == []


def channel_of(topic: str) -> dict[str, Any]:
    (channel,) = (each for each in DOCUMENT["channels"].values() if each["address"] == topic)
    return cast("dict[str, Any]", channel)


def test_topics_are_those_of_the_code() -> None:
    assert {channel["address"] for channel in DOCUMENT["channels"].values()} == {
        DEAL_CHAT_STATUS_CHANGED_TOPIC,
        CALL_RECORDING_AVAILABLE_TOPIC,
        DEAL_CREATED_TOPIC,
        dead_letter_topic(DEAL_CREATED_TOPIC),
    }


@given(
    status=st.sampled_from([ProvisionStatus.READY, ProvisionStatus.FAILED]),
    chat_id=st.sampled_from([None, CHAT_ID]),
    occurred_at=st.datetimes(timezones=st.timezones()),
)
def test_every_status_change_is_as_documented(
    status: ProvisionStatus, chat_id: Any, occurred_at: Any
) -> None:
    change = DealChatStatusChanged(deal_id=DEAL_ID, chat_id=chat_id, status=status, occurred_at=occurred_at)
    event = envelope(deal_chat_status_changed(change, event_id=EVENT_ID, correlation_id=RUN_ID))

    assert_is(event, "DealChatStatusChanged")
    assert event.key == str(DEAL_ID).encode()
    assert "dealChatStatusChanged" in channel_of(event.topic)["messages"]


ids = st.sampled_from([None, some_id(7)])


@given(
    chat_id=ids,
    deal_id=ids,
    tenant_id=ids,
    session_kind=st.sampled_from(SessionKind),
    media_type=st.sampled_from(MediaType),
    format_=st.sampled_from(RecordingFormat),
    ended_at=st.sampled_from([None, NOW]),
)
def test_every_announcement_is_as_documented(format_: RecordingFormat, **changes: Any) -> None:
    recording = a_recording(
        status=RecordingStatus.AVAILABLE, media=evolve(MEDIA, format=format_, duration_seconds=0), **changes
    )
    announced = call_recording_available(
        RecordingAvailable(recording=recording), event_id=EVENT_ID, correlation_id=RUN_ID
    )
    event = envelope(announced)

    assert_is(event, "CallRecordingAvailable")
    assert event.key == str(recording.session_id).encode()
    assert "callRecordingAvailable" in channel_of(event.topic)["messages"]


@pytest.mark.parametrize(
    ("schema", "field", "values"),
    [
        ("DealChatStatus", "status", {"Ready", "Failed"}),
        ("CallRecording", "sessionKind", {*SessionKind}),
        ("CallRecording", "mediaType", {*MediaType}),
        ("CallRecording", "format", {*RecordingFormat}),
    ],
)
def test_vocabularies_are_those_of_the_domain(schema: str, field: str, values: set[str]) -> None:
    assert set(SCHEMAS[schema]["properties"][field]["enum"]) == {str(value) for value in values}


@pytest.mark.parametrize("name", sorted(set(MESSAGES) - {"RefusedDealCreated"}))
def test_examples_are_as_documented(name: str) -> None:
    for example in MESSAGES[name]["examples"]:
        validator(MESSAGES[name]["payload"]).validate(example["payload"])
        validator(MESSAGES[name]["headers"]).validate(example.get("headers", {}))
        assert [*undocumented(MESSAGES[name]["payload"], example["payload"])] == []


@pytest.mark.parametrize("letter_of", [whole_letter, letter_without_value])
def test_dead_letters_say_what_is_documented(letter_of: Callable[..., Event]) -> None:
    schema = MESSAGES["RefusedDealCreated"]["headers"]
    refusal = read_created_deal(b"garbage")
    assert isinstance(refusal, Refusal)
    letter = DeadLetter(reason=refusal.code, sentence=refusal.sentence)
    record = ConsumerRecord(DEAL_CREATED_TOPIC, 3, 1042, 0, 0, b"key", b"garbage", None, 3, 7, ())
    headers = {
        name: value.decode() for name, value in letter_of(record, letter, group=DEAL_CREATED_GROUP).headers
    }

    validator(schema).validate(headers)
    assert [*undocumented(schema, headers)] == []
    validator(schema).validate(MESSAGES["RefusedDealCreated"]["examples"][0]["headers"])


def examples_of_created_deals() -> list[dict[str, Any]]:
    return [deepcopy(example["payload"]) for example in MESSAGES["DealCreated"]["examples"]]


def taken(document: object) -> bool:
    return not isinstance(read_created_deal(json.dumps(document).encode()), Refusal)


def valid(document: dict[str, Any]) -> bool:
    return validator(MESSAGES["DealCreated"]["payload"]).is_valid(document)


def test_examples_of_created_deals_are_taken() -> None:
    assert [taken(document) for document in examples_of_created_deals()] == [True, True]


def fields(document: dict[str, Any], path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    for name, value in document.items():
        yield (*path, name)
        if isinstance(value, dict):
            yield from fields(cast("dict[str, Any]", value), (*path, name))
    if "participants" in document:
        yield from fields(document["participants"][0], (*path, "participants", 0))


def inside(document: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        document = document[step]
    return document


COMPLETE = next(iter(examples_of_created_deals()))
EVERY_FIELD = [*fields(COMPLETE)]


@pytest.mark.parametrize("path", EVERY_FIELD, ids=lambda path: ".".join(map(str, path)))
def test_created_deal_may_lack_what_the_document_lets_it_lack(path: tuple[str | int, ...]) -> None:
    document = deepcopy(COMPLETE)
    del inside(document, path[:-1])[path[-1]]

    assert taken(document) == valid(document)


WRONG_OR_NOT: list[Any] = [
    None,
    True,
    7,
    1.5,
    "",
    "text",
    "x" * 33,
    "x" * 257,
    [],
    {},
    str(some_id(5)),
    "2026-03-14",
]


@pytest.mark.parametrize("path", EVERY_FIELD, ids=lambda path: ".".join(map(str, path)))
@pytest.mark.parametrize("value", WRONG_OR_NOT, ids=lambda value: f"{value!r:.8}-{len(repr(value))}")
def test_created_deal_is_taken_as_the_document_says(path: tuple[str | int, ...], value: Any) -> None:
    document = deepcopy(COMPLETE)
    inside(document, path[:-1])[path[-1]] = value

    if path[-1] in ("aggregateType", "aggregateId"):
        assert taken(document), "what is not needed is not looked at"
    else:
        assert taken(document) == valid(document)


@pytest.mark.parametrize(
    ("field", "most"), [("title", 256), ("participants", 1_000)], ids=["title", "participants"]
)
def test_limits_of_a_created_deal_are_those_of_the_document(field: str, most: int) -> None:
    for size, fits in ((most, True), (most + 1, False)):
        document = deepcopy(COMPLETE)
        document["payload"][field] = (
            "x" * size
            if field == "title"
            else [{"userId": str(some_id(number)), "role": "Buyer"} for number in range(size)]
        )
        assert taken(document) == valid(document) == fits
