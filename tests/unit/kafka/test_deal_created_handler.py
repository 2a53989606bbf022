from __future__ import annotations

import pytest
from messenger_jobs.adapters.kafka.deal_created_handler import DeadLettersUnavailable
from messenger_jobs.adapters.memory.switch import Phase
from messenger_jobs.application.cycle_report import Outcome
from messenger_jobs.application.ports.consumer_telemetry import DeadLetter, MessagePlace
from messenger_jobs.application.ports.errors import DatabaseUnavailable, DataRejected, Misconfigured
from messenger_jobs.application.ports.event_publisher import NotPublished, Unpublishable

from tests.support.builders import some_id
from tests.support.deal_created_messages import a_message
from tests.unit.kafka.consumers import ConsumerBench, FakeRecord, a_record

GARBAGE = FakeRecord(value=b"\xff", key=b"\0", headers=[("a", b"1"), ("a", None)], offset=7)
PLACE = MessagePlace(partition=3, offset=7)
NOT_UTF8 = DeadLetter(reason="Message:NOT_UTF8", sentence="The message is not UTF-8 text.")
TOO_LARGE = Unpublishable(code="MESSAGE_TOO_LARGE")


@pytest.fixture
def bench() -> ConsumerBench:
    return ConsumerBench()


async def test_deal_is_provisioned_and_told(bench: ConsumerBench) -> None:
    await bench.handler.handle(a_record(5))
    ((place, report),) = bench.telemetry.reports
    assert place == MessagePlace(partition=3, offset=5)
    assert (report.outcome, report.subject["deal_id"]) == (Outcome.PROVISIONED, some_id(105))
    assert len(bench.deals.chats) == 1
    assert bench.dead_letters.events == []


async def test_what_is_not_understood_is_set_aside_as_it_is_with_the_reason(bench: ConsumerBench) -> None:
    await bench.handler.handle(GARBAGE)
    (letter,) = bench.dead_letters.events
    assert letter.topic == "pin.crm.deal-created.v1.messenger.dlq"
    assert (letter.key, letter.value) == (b"\0", b"\xff")
    headers: tuple[tuple[str, bytes | None], ...] = letter.headers
    assert headers == (
        ("a", b"1"),
        ("a", None),
        ("dlq-reason", b"Message:NOT_UTF8"),
        ("dlq-explanation", b"The message is not UTF-8 text."),
        ("dlq-topic", b"pin.crm.deal-created.v1"),
        ("dlq-partition", b"3"),
        ("dlq-offset", b"7"),
        ("dlq-consumer-group", b"messenger.deal-created"),
    )
    assert bench.telemetry.dead_letters == [(PLACE, NOT_UTF8)]
    assert bench.telemetry.reports == []


async def test_what_the_database_refuses_is_set_aside(bench: ConsumerBench) -> None:
    bench.deals.switch.at("intend", Phase.ANSWERED, DataRejected("22001", "the database refuses the data"))
    await bench.handler.handle(a_record(7))
    letter = DeadLetter(reason="Postgres:22001", sentence="the database refuses the data.")
    assert bench.telemetry.dead_letters == [(PLACE, letter)]
    assert bench.dead_letters.events[0].value == a_message(some_id(107))


async def test_failure_of_the_database_comes_through_and_sets_nothing_aside(bench: ConsumerBench) -> None:
    bench.deals.switch.at("commit", Phase.SENT, DatabaseUnavailable("NO_ANSWER", "no answer"))
    with pytest.raises(DatabaseUnavailable):
        await bench.handler.handle(a_record(5))
    assert (bench.dead_letters.events, bench.telemetry.reports) == ([], [])


async def test_letter_without_acknowledgement_is_not_told_and_to_be_sent_again(bench: ConsumerBench) -> None:
    bench.dead_letters.script = [NotPublished(code="TIMED_OUT", outage=True)]
    with pytest.raises(DeadLettersUnavailable) as failure:
        await bench.handler.handle(GARBAGE)
    assert failure.value.code == "TIMED_OUT"
    assert bench.telemetry.dead_letters == []


async def test_letter_that_is_too_large_is_replaced_by_one_that_says_where_the_message_is(
    bench: ConsumerBench,
) -> None:
    bench.dead_letters.script = [TOO_LARGE]
    await bench.handler.handle(GARBAGE)
    (letter,) = bench.dead_letters.events
    assert (letter.key, letter.value) == (b"3/7", None)
    headers = dict(letter.headers)
    assert (headers["dlq-offset"], headers["dlq-value-lost"]) == (b"7", b"true")
    assert "a" not in headers
    ((_, told),) = bench.telemetry.dead_letters
    assert (told.reason, told.value_lost) == (NOT_UTF8.reason, True)


async def test_dead_letter_topic_that_takes_nothing_is_a_configuration_fault(bench: ConsumerBench) -> None:
    bench.dead_letters.script = [Unpublishable(code="TOPIC_REFUSED")] * 2
    with pytest.raises(Misconfigured) as failure:
        await bench.handler.handle(GARBAGE)
    assert failure.value.code == "TOPIC_REFUSED"
    assert bench.telemetry.dead_letters == []


async def test_stand_in_without_acknowledgement_is_to_be_sent_again(bench: ConsumerBench) -> None:
    bench.dead_letters.script = [TOO_LARGE, NotPublished(code="NO_LEADER", outage=False)]
    with pytest.raises(DeadLettersUnavailable):
        await bench.handler.handle(GARBAGE)
    assert bench.telemetry.dead_letters == []


async def test_message_that_is_given_up_names_the_defects_class_only(bench: ConsumerBench) -> None:
    await bench.handler.give_up(a_record(7), KeyError("Ivan Petrov"))
    ((place, told),) = bench.telemetry.dead_letters
    assert (place, told.reason) == (PLACE, "Defect:KeyError")
    (letter,) = bench.dead_letters.events
    assert letter.value == a_message(some_id(107))
    assert "Ivan" not in repr(letter.headers)
