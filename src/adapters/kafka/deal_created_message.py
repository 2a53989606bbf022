"""The CRM's message that a deal was created: bytes in, a `CreatedDeal` or a `Refusal` out, whatever the bytes are.

Expected is the common envelope with this payload, in JSON; unknown fields are ignored, at every level::

    {"eventId": UUID, "eventType": "DealCreated", "contractVersion": 1, "occurredAt": RFC 3339,
     "payload": {"dealId": UUID, "title": text, "projectId": UUID or null, "dealTenantId": UUID or null,
                 "participants": [{"userId": UUID, "role": text}]}}

Types are taken strictly: a number is no text, a boolean is no number. What the database could not store is refused
here as well (NUL characters, lone surrogates, titles and roles that are too long): nothing could be committed for it.
An empty title or no participants can be stored, and is for the provisioning attempt to refuse.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final, NoReturn, cast
from uuid import UUID

import attrs
from attrs import field, frozen
from cattrs import BaseValidationError, Converter, transform_error
from cattrs.cols import list_structure_factory
from cattrs.gen import make_dict_structure_fn, override

from ...application.integration_events import CORRELATION_ID_HEADER
from ...application.provision_created_deal import CreatedDeal
from ...domain.chat import ROLE_MAX_LENGTH, Member
from ...domain.errors import InvariantViolation
from ...domain.provisioning import TITLE_MAX_LENGTH

CONTRACT_VERSION: Final = 1
EVENT_TYPE: Final = "DealCreated"
MAX_BYTES: Final = 1024 * 1024
"""What brokers take by default. Reading stops the event loop for as long as it lasts, so there is a bound."""
MAX_PARTICIPANTS: Final = 1_000
"""All of them join in one transaction."""

Headers = Sequence[tuple[str, bytes | None]]

# The forms that the contract names, and no other that Python would understand too.
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_RFC_3339: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?([Zz]|[+-][0-9]{2}:[0-9]{2})"
)
_NOT_STORABLE: Final = re.compile("[\0\ud800-\udfff]")


@frozen(kw_only=True)
class Refusal:
    """Why a message is not understood, or cannot be stored.

    ``code`` is stable (``Message:NOT_JSON``); ``sentence`` names the field and holds nothing of what the message says.
    """

    code: str
    sentence: str


def read_created_deal(value: bytes | None, headers: Headers = ()) -> CreatedDeal | Refusal:
    """What the message says, or why it is refused. Never raises."""
    try:
        envelope = _CONVERTER.structure(_json(value), _Envelope)
    except _Refused as refused:
        return refused.refusal
    except BaseValidationError as errors:
        return _first(errors)
    payload = envelope.payload
    return CreatedDeal(
        deal_id=payload.deal_id,
        title=payload.title,
        project_id=payload.project_id,
        deal_tenant_id=payload.deal_tenant_id,
        members=tuple(payload.participants),
        event_id=envelope.event_id,
        correlation_id=_correlation_id(headers) or envelope.event_id,
    )


@frozen(kw_only=True)
class _Payload:
    deal_id: UUID = field(alias="dealId")
    title: str
    project_id: UUID | None = field(alias="projectId", default=None)
    deal_tenant_id: UUID | None = field(alias="dealTenantId", default=None)
    participants: list[Member]

    def __attrs_post_init__(self) -> None:
        if len(self.title) > TITLE_MAX_LENGTH:
            _refuse("TITLE_TOO_LONG", f"has a title of more than {TITLE_MAX_LENGTH} characters")


@frozen(kw_only=True)
class _Envelope:
    event_id: UUID = field(alias="eventId")
    occurred_at: datetime = field(alias="occurredAt")
    payload: _Payload


class _Refused(ValueError):
    """Raised while reading; the sentence goes on after the name of what is read."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(code)
        self.code = code
        self.sentence = sentence

    @property
    def refusal(self) -> Refusal:
        return Refusal(code=f"Message:{self.code}", sentence=f"The message {self.sentence}.")


def _refuse(code: str, sentence: str) -> NoReturn:
    raise _Refused(code, sentence)


def _json(value: bytes | None) -> object:
    if not value:
        _refuse("EMPTY", "has no value")
    if len(value) > MAX_BYTES:
        _refuse("TOO_LARGE", f"is larger than {MAX_BYTES} bytes")
    try:
        text = value.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _Refused("NOT_UTF8", "is not UTF-8 text") from None
    try:
        return json.loads(text, object_pairs_hook=_without_duplicates, parse_constant=_no_json)
    except _Refused:
        raise
    except RecursionError:
        raise _Refused("TOO_DEEP", "is nested too deeply") from None
    except ValueError:  # no JSON, or a number of thousands of digits
        raise _Refused("NOT_JSON", "is not JSON") from None


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    known = dict(pairs)
    if len(known) < len(pairs):
        _refuse("DUPLICATE_KEY", "has an object with the same field twice")
    return known


def _no_json(constant: str) -> NoReturn:
    del constant  # NaN or an infinity, which Python would take
    _refuse("NOT_JSON", "is not JSON")


def _text(value: object, _: object) -> str:
    if not isinstance(value, str):
        _refuse("WRONG_TYPE", "is not a text")
    if _NOT_STORABLE.search(value):
        _refuse("UNSTORABLE_TEXT", "holds a character that cannot be stored")
    return value


def _uuid(value: object, _: object) -> UUID:
    if not isinstance(value, str):
        _refuse("WRONG_TYPE", "is not a text")
    if not _UUID.fullmatch(value):
        _refuse("NOT_A_UUID", "is not a UUID")
    return UUID(value)


def _time(value: object, _: object) -> datetime:
    if not isinstance(value, str):
        _refuse("WRONG_TYPE", "is not a text")
    if _RFC_3339.fullmatch(value):
        try:
            return datetime.fromisoformat(value.upper())
        except ValueError:  # the 30th of February
            pass
    _refuse("NOT_A_TIME", "is not an RFC 3339 time with an offset")


def _ensure_known(value: dict[str, object]) -> None:
    """Ask first what this is: what another version, or another event, lacks is not a fault of it."""
    version, kind = value.get("contractVersion"), value.get("eventType")
    if "contractVersion" not in value or "eventType" not in value:
        _refuse("FIELD_MISSING", "lacks contractVersion or eventType")
    if type(version) is not int or not isinstance(kind, str):
        _refuse(
            "WRONG_TYPE", "has a contractVersion that is not a number, or an eventType that is not a text"
        )
    if version != CONTRACT_VERSION:
        _refuse("UNKNOWN_CONTRACT_VERSION", f"has a contractVersion other than {CONTRACT_VERSION}")
    if kind != EVENT_TYPE:
        _refuse("UNKNOWN_EVENT_TYPE", f"has an eventType other than {EVENT_TYPE}")


def _converter() -> Converter:
    converter = Converter(use_alias=True)

    def of_class(kind: type[Any]) -> Callable[[object, object], Any]:
        if kind is Member:
            structure = make_dict_structure_fn(kind, converter, user_id=override(rename="userId"))
        else:
            structure = make_dict_structure_fn(kind, converter)

        def hook(value: object, _: object) -> Any:
            if not isinstance(value, dict):
                _refuse("NOT_AN_OBJECT", "is not an object")
            fields = cast("dict[str, object]", value)
            if kind is _Envelope:
                _ensure_known(fields)
            return structure(fields, kind)

        return hook

    def of_list(kind: Any) -> Callable[[object, object], Any]:
        structure = list_structure_factory(kind, converter)

        def hook(value: object, _: object) -> Any:
            if not isinstance(value, list):
                _refuse("WRONG_TYPE", "is not a list")
            entries = cast("list[object]", value)
            if len(entries) > MAX_PARTICIPANTS:
                _refuse("TOO_MANY_PARTICIPANTS", f"has more than {MAX_PARTICIPANTS} entries")
            return structure(entries, kind)

        return hook

    converter.register_structure_hook(str, _text)
    converter.register_structure_hook(UUID, _uuid)
    converter.register_structure_hook(datetime, _time)
    converter.register_structure_hook_factory(attrs.has, of_class)
    converter.register_structure_hook_factory(lambda kind: kind == list[Member], of_list)
    return converter


_CONVERTER: Final = _converter()


def _first(errors: BaseValidationError) -> Refusal:
    """The first of all that is wrong."""
    described, _, path = transform_error(errors, path="", format_exception=_described)[0].rpartition(" @ ")
    code, _, sentence = described.partition(" ")
    name = re.sub("_(.)", lambda letter: letter[1].upper(), path.lstrip("."))
    return Refusal(code=f"Message:{code}", sentence=f"{name} {sentence}.")


def _described(error: BaseException, _: object) -> str:
    match error:
        case _Refused():
            return f"{error.code} {error.sentence}"
        case KeyError():
            return "FIELD_MISSING is missing"
        case InvariantViolation():  # of a member
            return f"UNSTORABLE_ROLE has a role that is empty, or longer than {ROLE_MAX_LENGTH} characters"
        case _:
            raise error


def _correlation_id(headers: Headers) -> UUID | None:
    """Headers are a courtesy: one that cannot be read is as good as none."""
    for name, value in reversed(headers):
        if name == CORRELATION_ID_HEADER and value is not None:
            text = value.decode("ascii", errors="replace")
            return UUID(text) if _UUID.fullmatch(text) else None
    return None
