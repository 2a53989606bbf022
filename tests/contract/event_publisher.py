"""What every `EventPublisher` keeps, whatever is behind it."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import pytest
from attrs import frozen
from messenger_jobs.application.ports.event_publisher import (
    Event,
    EventPublisher,
    NotPublished,
    Published,
    Receipt,
    Unpublishable,
)


@frozen
class Arrived:
    """An event as a reader finds it."""

    event: Event
    partition: int | None
    offset: int | None


class EventPublisherHarness(ABC):
    """A publisher, and a look behind it."""

    publisher: EventPublisher

    @abstractmethod
    def new_topic(self, partitions: int = 1) -> str:
        """A topic of its own."""

    @abstractmethod
    async def arrived(self, topic: str) -> Sequence[Arrived]:
        """Everything in a topic, in the order of each partition."""

    async def publish(self, *events: Event) -> Sequence[Receipt]:
        return await self.publisher.publish(events)


class BrokerHarness(EventPublisherHarness):
    """Behind it, something says no."""

    @abstractmethod
    def new_topic_with_limit(self, max_message_bytes: int) -> str:
        """A topic of one partition that refuses larger messages."""


def an_event(
    topic: str, key: str | bytes | None = "key", value: str | bytes | None = "value", **headers: bytes
) -> Event:
    return Event(
        topic=topic,
        key=key.encode() if isinstance(key, str) else key,
        value=value.encode() if isinstance(value, str) else value,
        headers=tuple((name.replace("_", "-"), content) for name, content in headers.items()),
    )


def published(receipt: Receipt) -> Published:
    assert isinstance(receipt, Published), receipt
    return receipt


class EventPublisherContract:
    """Inherit, and give a fixture ``harness``."""

    async def test_event_arrives_as_it_was(self, harness: EventPublisherHarness) -> None:
        topic = harness.new_topic()
        events = [
            an_event(topic, "plain", "value", event_id=b"1", traceparent=b"00-1-2-00"),
            an_event(topic, b"\xff\x00 not UTF-8", b"\x80\x81"),
            an_event(topic, "тема", "ценность \u2028 \n \0 {} \\"),
            an_event(topic, "empty", ""),
            an_event(topic, "without a value", None),
            an_event(topic, None, "without a key"),
            Event(topic=topic, key=b"repeated", value=b"", headers=(("a", b""), ("a", b"\xff"), ("", b"1"))),
        ]
        for receipt in await harness.publish(*events):
            published(receipt)
        arrived = [one.event for one in await harness.arrived(topic)]
        assert Counter(arrived) == Counter(events)

    async def test_receipts_come_in_the_order_of_the_events_and_say_where_each_is(
        self, harness: EventPublisherHarness
    ) -> None:
        topics = [harness.new_topic(3), harness.new_topic()]
        events = [an_event(topics[number % 2], f"{number}") for number in range(20)]
        receipts = [published(receipt) for receipt in await harness.publish(*events)]
        places = {
            one.event: (one.partition, one.offset) for topic in topics for one in await harness.arrived(topic)
        }
        assert [places[event] for event in events] == [
            (receipt.partition, receipt.offset) for receipt in receipts
        ]

    async def test_events_of_a_key_stand_in_the_order_of_their_publishing(
        self, harness: EventPublisherHarness
    ) -> None:
        topic = harness.new_topic(3)
        for round in range(10):
            for receipt in await harness.publish(
                *(an_event(topic, f"{key}", f"{round}") for key in range(5))
            ):
                published(receipt)
        values: dict[bytes | None, list[bytes | None]] = defaultdict(list)
        partitions: dict[bytes | None, set[int | None]] = defaultdict(set)
        for one in await harness.arrived(topic):
            values[one.event.key].append(one.event.value)
            partitions[one.event.key].add(one.partition)
        assert all(found == [f"{round}".encode() for round in range(10)] for found in values.values())
        assert all(len(found) == 1 for found in partitions.values())
        assert len(values) == 5

    async def test_two_events_of_one_topic_and_key_are_refused_before_anything_is_sent(
        self, harness: EventPublisherHarness
    ) -> None:
        topic = harness.new_topic()
        for key in ("twice", None):
            with pytest.raises(ValueError, match="topic and key"):
                await harness.publish(
                    an_event(topic, key, "1"), an_event(topic, "once"), an_event(topic, key, "2")
                )
        assert await harness.arrived(topic) == []

    async def test_one_key_may_be_in_two_topics(self, harness: EventPublisherHarness) -> None:
        topics = [harness.new_topic(), harness.new_topic()]
        for receipt in await harness.publish(*(an_event(topic) for topic in topics)):
            published(receipt)
        assert [len(await harness.arrived(topic)) for topic in topics] == [1, 1]

    async def test_publishing_nothing_is_done_at_once(self, harness: EventPublisherHarness) -> None:
        assert list(await harness.publish()) == []

    async def test_many_events_are_published_at_once(self, harness: EventPublisherHarness) -> None:
        topic = harness.new_topic(3)
        events = [an_event(topic, f"{number}", "x" * 700) for number in range(500)]
        receipts = [published(receipt) for receipt in await harness.publish(*events)]
        assert len({(receipt.partition, receipt.offset) for receipt in receipts}) == 500
        assert {one.event for one in await harness.arrived(topic)} == set(events)

    async def test_several_publish_at_the_same_time(self, harness: EventPublisherHarness) -> None:
        topic = harness.new_topic(3)
        rounds = [[an_event(topic, f"{part}-{key}") for key in range(10)] for part in range(10)]
        answers = await asyncio.gather(*(harness.publish(*events) for events in rounds))
        for receipts in answers:
            for receipt in receipts:
                published(receipt)
        assert {one.event for one in await harness.arrived(topic)} == {
            event for events in rounds for event in events
        }

    async def test_event_without_key_and_value_is_unpublishable_and_harms_no_other(
        self, harness: EventPublisherHarness
    ) -> None:
        topic = harness.new_topic()
        nothing, something = await harness.publish(an_event(topic, None, None), an_event(topic))
        assert nothing == Unpublishable(code="NO_KEY_AND_NO_VALUE")
        published(something)

    async def test_cancelled_publish_is_cancelled_and_harms_no_later_one(
        self, harness: EventPublisherHarness
    ) -> None:
        topic = harness.new_topic()
        for turns in range(8):
            events = [an_event(topic, f"{key}", f"{turns}") for key in range(3)]
            publishing = asyncio.create_task(harness.publisher.publish(events))
            for _ in range(turns):
                await asyncio.sleep(0)
            if publishing.cancel():
                with pytest.raises(asyncio.CancelledError):
                    await publishing
            for receipt in await harness.publish(*events):
                published(receipt)
        values: dict[bytes | None, list[int]] = defaultdict(list)
        for one in await harness.arrived(topic):
            values[one.event.key].append(int(one.event.value or b""))
        for found in values.values():  # twice perhaps, and never after a later one
            assert found == sorted(found)
            assert set(found) == set(range(8))


class BrokerContract(EventPublisherContract):
    """What holds besides where a broker can say no."""

    @pytest.mark.real_kafka
    async def test_unknown_topic_fails_its_own_events_alone(self, harness: BrokerHarness) -> None:
        topic = harness.new_topic()
        receipts = await harness.publish(
            an_event(topic, "1"), an_event("messenger-test-unknown", "2"), an_event(topic, "3")
        )
        published(receipts[0])
        assert receipts[1] == NotPublished(code="UNKNOWN_TOPIC", outage=False)
        published(receipts[2])

    @pytest.mark.real_kafka
    @pytest.mark.parametrize("limit", [5_000, 50_000, 2_000_000])
    async def test_message_that_is_too_large_is_unpublishable_alone(
        self, harness: BrokerHarness, limit: int
    ) -> None:
        topic = harness.new_topic_with_limit(limit)
        too_large = {3, 7}
        events = [
            an_event(topic, f"{number}", "x" * (limit + 1 if number in too_large else 1_000))
            for number in range(40)
        ]
        receipts = await harness.publish(*events)
        for number, receipt in enumerate(receipts):
            if number in too_large:
                assert receipt == Unpublishable(code="MESSAGE_TOO_LARGE")
            else:
                published(receipt)
        again = await harness.publish(an_event(topic, "3", "smaller"), an_event(topic, "0", "next"))
        for receipt in again:
            published(receipt)
        arrived: dict[Any, list[Any]] = defaultdict(list)
        for one in await harness.arrived(topic):
            arrived[one.event.key].append(one.event.value)
        assert arrived[b"0"] == [b"x" * 1_000, b"next"]
        assert arrived[b"3"] == [b"smaller"]
        assert len(arrived) == 39
