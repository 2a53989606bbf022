"""A broker that keeps everything it ever got, and a process's connection to it."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from attrs import define, field, frozen
from messenger_jobs.adapters.memory.switch import Phase, Step
from messenger_jobs.application.integration_events import EVENT_ID_HEADER
from messenger_jobs.application.ports.errors import DatabaseUnavailable
from messenger_jobs.application.ports.event_publisher import (
    Event,
    NotPublished,
    Published,
    Receipt,
    Unpublishable,
)

from tests.simulation.faults import Fault, Port
from tests.simulation.process import Process


@define(eq=False)
class SimulatedBroker:
    """One partition; what was acknowledged, or refused for good, is known by the event's id."""

    log: list[UUID] = field(factory=list[UUID], init=False)
    refused: set[UUID] = field(factory=set[UUID], init=False)
    troubled: set[UUID] = field(factory=set[UUID], init=False)
    """Messages that failed by themselves."""

    def append(self, event_id: UUID) -> Published:
        """Keep one event, again if need be."""
        self.log.append(event_id)
        return Published(partition=0, offset=len(self.log) - 1)


@frozen
class SimulatedPublisher:
    """See `EventPublisher`."""

    _process: Process

    async def publish(self, events: Sequence[Event]) -> Sequence[Receipt]:
        """See `EventPublisher.publish`. All of the events arrive, or none; one of them may be refused."""
        process = self._process
        process.expect_to_hold_the_lock(f"{process.name} publishes")
        keys = [(event.topic, event.key) for event in events]
        if len(keys) != len(set(keys)):
            raise ValueError("two events of one key at once")
        broker, switch = process.world.broker, process.exchange(Port.BROKER)
        try:
            await switch(Step("publish", Phase.SENT))
            trouble = process.trouble_with_a_message()
            receipts = [broker.append(_id_of(event)) for event in events[trouble is not None :]]
            await switch(Step("publish", Phase.ANSWERED))
        except DatabaseUnavailable:
            return [NotPublished(code="Kafka:TIMED_OUT", outage=True) for _ in events]
        return receipts if trouble is None else [self._refusal(events[0], trouble), *receipts]

    def _refusal(self, event: Event, trouble: Fault) -> Receipt:
        self._process.world.broker.troubled.add(_id_of(event))
        if trouble is Fault.TOO_LARGE:
            self._process.world.broker.refused.add(_id_of(event))
            return Unpublishable(code="Kafka:MESSAGE_TOO_LARGE")
        return NotPublished(code="Kafka:NOT_LEADER", outage=False)


def _id_of(event: Event) -> UUID:
    return UUID(next(value.decode() for name, value in event.headers if name == EVENT_ID_HEADER))
