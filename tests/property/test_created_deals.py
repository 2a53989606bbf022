"""Whatever bytes come, they are understood or refused; and what is understood can be stored."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from hypothesis import event, given
from hypothesis import strategies as st
from messenger_jobs.adapters.kafka.deal_created_message import Refusal, read_created_deal
from messenger_jobs.adapters.memory.clock import ManualClock
from messenger_jobs.adapters.memory.provisioning import MemoryProvisioningStore
from messenger_jobs.adapters.memory.schema import MessengerDatabase
from messenger_jobs.application.cycle_report import Outcome
from messenger_jobs.application.provision_created_deal import CreatedDeal, ProvisionCreatedDeal
from messenger_jobs.application.provision_deal_chat import ProvisionDealChat

from tests.support.builders import NOW, RULES, ids_from
from tests.support.deal_created_messages import a_document

# Text with what is hard to store: NUL, lone surrogates, characters outside the basic plane.
TEXT = st.text(st.characters(codec=None), max_size=40) | st.sampled_from(
    ["\0", "\ud800", "x" * 256, "x" * 257]
)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
IDS = st.uuids().map(str)


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """The contract's document with one to three values replaced by anything, or left out."""
    document = a_document()
    payload = document["payload"]
    payload["title"] = draw(TEXT)
    payload["participants"] = draw(
        st.lists(st.fixed_dictionaries({"userId": IDS, "role": TEXT.filter(bool)}), max_size=4)
    )
    places = [document, payload, *payload["participants"]]
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.sampled_from(places))
        if place:
            name = draw(st.sampled_from(sorted(place)))
            if draw(st.booleans()):
                del place[name]
            else:
                place[name] = draw(JSON)
    return document


def provision(deal: CreatedDeal) -> Outcome:
    """The outcome of the attempt on an empty database."""
    clock, new_id = ManualClock(NOW), ids_from()
    use_case = ProvisionCreatedDeal(
        store=MemoryProvisioningStore(MessengerDatabase(clock)),
        provisioning=ProvisionDealChat(clock=clock, new_id=new_id, spread=lambda: 0.0, rules=RULES),
        clock=clock,
        new_id=new_id,
    )
    return asyncio.run(use_case(deal)).outcome


@given(st.binary() | st.none(), st.lists(st.tuples(st.text(), st.none() | st.binary())))
def test_any_bytes_are_understood_or_refused(
    value: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    assert isinstance(read_created_deal(value, headers), CreatedDeal | Refusal)


@given(JSON)
def test_any_json_is_understood_or_refused(document: object) -> None:
    assert isinstance(read_created_deal(json.dumps(document).encode()), CreatedDeal | Refusal)


@given(documents())
def test_what_is_understood_can_be_stored(document: dict[str, Any]) -> None:
    """Nothing that the database refuses gets that far: every deal is provisioned, or refused by a rule and counted."""
    deal = read_created_deal(json.dumps(document).encode())
    if isinstance(deal, Refusal):
        event(deal.code)
        return
    outcome = provision(deal)
    event(outcome.value)
    assert outcome in (Outcome.PROVISIONED, Outcome.RETRIED)
