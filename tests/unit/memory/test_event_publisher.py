"""The broker in memory, told to fail."""

from __future__ import annotations

import pytest
from messenger_jobs.adapters.memory.event_publisher import MemoryEventPublisher, MemoryTopic
from messenger_jobs.adapters.memory.switch import Phase, Step
from messenger_jobs.application.ports.errors import Misconfigured, PortError
from messenger_jobs.application.ports.event_publisher import Event, NotPublished, Published, Unpublishable

ONE = Event(topic="topic", key=b"1", value=b"value")
OTHER = Event(topic="topic", key=b"2", value=b"value")


def failing_at(phase: Phase, error: PortError) -> MemoryEventPublisher:
    async def switch(step: Step) -> None:
        if step.phase is phase:
            raise error

    publisher = MemoryEventPublisher(switch=switch)
    publisher.add_topic("topic")
    return publisher


async def test_lost_request_stores_nothing_and_a_lost_answer_everything() -> None:
    for phase, stored in ((Phase.SENT, []), (Phase.ANSWERED, [ONE, OTHER])):
        publisher = failing_at(phase, PortError("LOST", "lost"))
        assert await publisher.publish([ONE, OTHER]) == [NotPublished(code="LOST", outage=True)] * 2
        assert [record.event for record in publisher.topics["topic"].log] == stored


async def test_broker_that_refuses_the_client_is_misconfigured() -> None:
    publisher = failing_at(Phase.SENT, Misconfigured("REFUSED", "refused"))
    with pytest.raises(Misconfigured):
        await publisher.publish([ONE])
    assert publisher.topics["topic"].log == []


async def test_outage_fails_everything_until_it_is_healed() -> None:
    publisher = MemoryEventPublisher()
    publisher.add_topic("topic")
    publisher.outage = "DOWN"
    assert await publisher.publish([ONE]) == [NotPublished(code="DOWN", outage=True)]
    publisher.heal()
    assert await publisher.publish([ONE]) == [Published(partition=0, offset=0)]


async def test_failure_of_a_key_fails_its_event_alone() -> None:
    publisher, failure = MemoryEventPublisher(), NotPublished(code="NO_LEADER", outage=False)
    publisher.add_topic("topic")
    publisher.fail("topic", b"1", failure)
    assert await publisher.publish([ONE, OTHER]) == [failure, Published(partition=0, offset=0)]


async def test_topic_that_refuses_the_client_stores_nothing() -> None:
    publisher = MemoryEventPublisher()
    topic = publisher.add_topic("topic", MemoryTopic(refused=True))
    assert await publisher.publish([ONE]) == [Unpublishable(code="TOPIC_REFUSED")]
    assert topic.log == []
