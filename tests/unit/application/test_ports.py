"""The little that the ports do themselves."""

from __future__ import annotations

import pytest
from messenger_jobs.application.ports.check import CheckedItem, SkippedCheck, Verdict, failed, ok, skipped
from messenger_jobs.application.ports.errors import ChatAlreadyExists, Misconfigured
from messenger_jobs.application.ports.event_publisher import Event, ensure_keys_differ


def an_event(topic: str, key: bytes | None) -> Event:
    return Event(topic=topic, key=key, value=b"{}")


def test_two_events_of_a_topic_and_key_cannot_be_published_at_once() -> None:
    with pytest.raises(ValueError, match=r"^two events of one publish have the same topic and key$"):
        ensure_keys_differ([an_event("deals", b"1"), an_event("calls", b"2"), an_event("deals", b"1")])


@pytest.mark.parametrize(
    "events",
    [
        [],
        [an_event("deals", b"1")],
        [an_event("deals", b"1"), an_event("deals", b"2"), an_event("calls", b"1")],
    ],
    ids=len,
)
def test_events_that_differ_in_topic_or_key_can(events: list[Event]) -> None:
    ensure_keys_differ(events)


def test_error_has_a_code_for_machines_and_a_sentence_for_people() -> None:
    error = Misconfigured("42P01", "a table is missing")
    assert (error.code, str(error)) == ("42P01", "a table is missing")


def test_chat_of_a_concurrent_creator_is_named_by_the_constraint_that_it_won_by() -> None:
    error = ChatAlreadyExists()
    assert error.code == "ux_chats_deal_id"
    assert str(error) == "the deal got its chat from a concurrent transaction"


def test_item_of_a_check_has_a_code_where_something_must_be_done() -> None:
    assert ok("database", "it answers") == CheckedItem(
        item="database", verdict=Verdict.OK, sentence="it answers", code=None
    )
    assert failed("schema", "a table is missing", "42P01") == CheckedItem(
        item="schema", verdict=Verdict.FAILED, sentence="a table is missing", code="42P01"
    )
    assert skipped("storage", "the job is off") == CheckedItem(
        item="storage", verdict=Verdict.SKIPPED, sentence="the job is off", code=None
    )


async def test_check_of_what_is_not_in_use_says_so() -> None:
    assert await SkippedCheck("storage", "the job is off")() == [skipped("storage", "the job is off")]
