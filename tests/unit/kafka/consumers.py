"""A partition, a group and dead letters that do as they are told, over the memory database."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from attrs import define, field, frozen
from messenger_jobs.adapters.kafka.deal_created_dead_letter import DEAL_CREATED_TOPIC
from messenger_jobs.adapters.kafka.deal_created_handler import DealCreatedHandler
from messenger_jobs.adapters.kafka.deal_created_lane import DealCreatedLane
from messenger_jobs.adapters.kafka.deal_created_troubles import Troubles
from messenger_jobs.adapters.memory.consumer_telemetry import MemoryConsumerTelemetry
from messenger_jobs.application.ports.event_publisher import Event, Published, Receipt
from messenger_jobs.application.provision_created_deal import ProvisionCreatedDeal
from messenger_jobs.domain.backoff import BackoffPolicy

from tests.support.builders import some_id
from tests.support.deal_created_messages import a_message
from tests.unit.application.deals import RUN_ID, Deals

BACKOFF = BackoffPolicy()
"""The first wait takes a minute."""


@frozen(kw_only=True)
class FakeRecord:
    value: bytes | None
    offset: int = 0
    key: bytes | None = None
    headers: Sequence[tuple[str, Any]] = ()
    partition: int = 3
    topic: str = DEAL_CREATED_TOPIC


def a_record(offset: int) -> FakeRecord:
    """The message that the deal with the number 100 more than its offset was created."""
    return FakeRecord(value=a_message(some_id(100 + offset)), offset=offset)


@define
class FakePartition:
    """Gives out its chunks, and then nothing for ever; `failure` is what the group answers to a commit."""

    chunks: deque[list[FakeRecord]] = field(factory=deque[list[FakeRecord]])
    commits: list[int] = field(factory=list[int])
    failure: Exception | None = None

    async def fetch(self) -> Sequence[FakeRecord]:
        if not self.chunks:
            await asyncio.Event().wait()
        await asyncio.sleep(0)
        return self.chunks.popleft()

    async def commit(self, offset: int) -> None:
        await asyncio.sleep(0)
        if self.failure is not None:
            raise self.failure
        self.commits.append(offset)


@define
class FakeDeadLetters:
    """Acknowledges everything, unless the script says otherwise for the next event."""

    script: list[Receipt | Exception] = field(factory=list[Receipt | Exception])
    events: list[Event] = field(factory=list[Event])

    async def publish(self, events: Sequence[Event]) -> Sequence[Receipt]:
        await asyncio.sleep(0)
        (event,) = events
        answer = self.script.pop(0) if self.script else Published(partition=0, offset=0)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Published):
            self.events.append(event)
        return [answer]


@define(eq=False)
class ConsumerBench:
    """One consumer's parts; its store can be disturbed through ``deals.switch``."""

    deals: Deals = field(factory=Deals)
    telemetry: MemoryConsumerTelemetry = field(factory=MemoryConsumerTelemetry)
    dead_letters: FakeDeadLetters = field(factory=FakeDeadLetters)
    partition: FakePartition = field(factory=FakePartition)
    slots: asyncio.Semaphore = field(factory=lambda: asyncio.Semaphore(4))
    provision: ProvisionCreatedDeal = field(init=False)
    handler: DealCreatedHandler = field(init=False)
    troubles: Troubles = field(init=False)

    def __attrs_post_init__(self) -> None:
        deals = self.deals
        self.provision = ProvisionCreatedDeal(
            store=deals.store, provisioning=deals.provisioning, clock=deals.clock, new_id=deals.new_id
        )
        self.handler = DealCreatedHandler(
            provision=self.provision,
            dead_letters=self.dead_letters,
            telemetry=self.telemetry,
            run_id=RUN_ID,
        )
        self.troubles = Troubles(self.telemetry, RUN_ID)

    def lane(self, *chunks: list[FakeRecord], partition: FakePartition | None = None) -> DealCreatedLane:
        partition = partition or self.partition
        partition.chunks.extend(chunks)
        return DealCreatedLane(
            partition=partition,
            handler=self.handler,
            troubles=self.troubles,
            slots=self.slots,
            clock=self.deals.clock,
            backoff=BACKOFF,
            spread=lambda: 0.0,
        )

    @property
    def handled(self) -> list[int]:
        return [place.offset for place, _ in self.telemetry.reports]

    async def until(self, holds: Callable[[], bool]) -> None:
        """Let the others run until it holds, without any time passing."""
        for _ in range(5_000):
            if holds():
                return
            await asyncio.sleep(0)
        raise AssertionError("it did not come to hold")

    async def until_it_waits(self) -> None:
        """Until somebody sleeps."""
        await self.until(lambda: self.deals.clock.time_to_next is not None)

    def wake(self) -> None:
        """Let the time pass that the next one sleeps."""
        wait = self.deals.clock.time_to_next
        assert wait is not None
        self.deals.clock.advance(wait)
