"""The ``deal-created`` consumer: deals get their chats as soon as they are created."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Final
from uuid import UUID

from attrs import define, field, frozen

from ...application.finishing import asked_to_end
from ...application.heartbeat import Beat, unheard
from ...application.ports.clock import Clock
from ...application.ports.consumer_telemetry import ConsumerTelemetry
from ...application.ports.entropy import NewId, Spread
from ...application.ports.event_publisher import EventPublisher
from ...application.provision_created_deal import ProvisionCreatedDeal
from ...application.stop_signal import StopSignal
from ...application.trouble import TroubleKind
from ...domain.backoff import BackoffPolicy
from .deal_created_dead_letter import DEAL_CREATED_GROUP, DEAL_CREATED_TOPIC
from .deal_created_handler import DealCreatedHandler
from .deal_created_lane import DealCreatedLane, Partition
from .deal_created_session import DealCreatedSession, GroupClient, SessionTimes
from .deal_created_troubles import Troubles, trouble_with_group

BACKOFF: Final = BackoffPolicy(base=timedelta(seconds=1), cap=timedelta(seconds=30))
TIMES: Final = SessionTimes()


STOP_BOUND: Final = 25.0
"""Seconds from a stop to the end at the latest: the grace of the messages in hand, ten for their transactions to be
rolled back on a database that does not answer, and the client's leaving."""
PATIENCE: Final = 120.0
"""Seconds between two signs of life at the most: the group may take that long to be balanced anew."""


@frozen(kw_only=True)
class DealCreatedConsumer:
    """Takes ``pin.crm.deal-created.v1`` as a member of the group ``messenger.deal-created``.

    Partitions are handled side by side, ``concurrency`` messages at once, and within a partition in order. A broker
    that is out of reach, at the start or later, is tried again for as long as it takes, and so is one that refuses us.

    ``new_client`` makes an unconnected member of ``group``; a membership that fails is replaced by a new one.
    """

    new_client: Callable[[], GroupClient]
    provision: ProvisionCreatedDeal
    dead_letters: EventPublisher
    telemetry: ConsumerTelemetry
    clock: Clock
    new_id: NewId
    spread: Spread
    concurrency: int = 4
    topic: str = DEAL_CREATED_TOPIC
    group: str = DEAL_CREATED_GROUP
    backoff: BackoffPolicy = BACKOFF
    times: SessionTimes = TIMES

    async def run(self, stop: StopSignal, *, beat: Beat = unheard) -> None:
        """Consume until a stop is requested; then return once the messages in hand are finished and committed.

        That takes at most `STOP_BOUND` seconds, whatever broker and database do. Failures end in the telemetry, never
        in an exception. ``beat`` is called at every sign of life, at the latest after `PATIENCE` seconds. Cancellation
        rolls the messages in hand back and propagates.
        """
        await _Run(self, self.new_id(), stop, beat).until_stopped()


@define(eq=False)
class _Run:
    """What one run remembers from one membership to the next."""

    _consumer: DealCreatedConsumer
    _run_id: UUID
    _stop: StopSignal
    _beat: Beat
    _troubles: Troubles = field(init=False)
    _slots: asyncio.Semaphore = field(init=False)
    _handler: DealCreatedHandler = field(init=False)
    _failures_in_a_row: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        consumer = self._consumer
        self._troubles = Troubles(consumer.telemetry, self._run_id)
        self._slots = asyncio.Semaphore(consumer.concurrency)
        self._handler = DealCreatedHandler(
            provision=consumer.provision,
            dead_letters=consumer.dead_letters,
            telemetry=consumer.telemetry,
            run_id=self._run_id,
            group=consumer.group,
        )

    async def until_stopped(self) -> None:
        while not self._stop.requested:
            self._beat()
            try:
                await self._membership()
            except asyncio.CancelledError as error:
                if asked_to_end():
                    raise
                await self._wait_after(error)
            except Exception as error:  # noqa: BLE001 - the consumer must outlive whatever happens to it
                await self._wait_after(error)

    async def _membership(self) -> None:
        consumer = self._consumer
        session = DealCreatedSession(
            client=consumer.new_client(),
            topic=consumer.topic,
            new_lane=self._new_lane,
            telemetry=consumer.telemetry,
            run_id=self._run_id,
            clock=consumer.clock,
            times=consumer.times,
            is_well=self._is_well,
            beat=self._beat,
        )
        await session.run(self._stop)

    def _is_well(self) -> None:
        self._failures_in_a_row = 0
        self._troubles.is_well(self)

    def _new_lane(self, partition: Partition) -> DealCreatedLane:
        consumer = self._consumer
        return DealCreatedLane(
            partition=partition,
            handler=self._handler,
            troubles=self._troubles,
            slots=self._slots,
            clock=consumer.clock,
            backoff=consumer.backoff,
            spread=consumer.spread,
        )

    async def _wait_after(self, error: BaseException) -> None:
        consumer = self._consumer
        trouble = trouble_with_group(error)
        if trouble.kind is TroubleKind.DEFECT:
            consumer.telemetry.defect(self._run_id, None, error)
        self._troubles.has(self, trouble)
        self._failures_in_a_row += 1
        self._beat()
        delay = consumer.backoff.delay(self._failures_in_a_row, consumer.spread())
        await self._stop.cut_short(consumer.clock.sleep(delay.total_seconds()))
