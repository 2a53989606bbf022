"""One membership in the consumer group, from joining to leaving."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Final, Protocol
from uuid import UUID

from aiokafka import (  # type: ignore[import-untyped]  # ships no types
    ConsumerRebalanceListener,
    TopicPartition,
)
from aiokafka.errors import (  # type: ignore[import-untyped]  # ships no types
    CommitFailedError,
    IllegalStateError,
)
from attrs import define, field, frozen

from ...application.ports.clock import Clock
from ...application.ports.consumer_telemetry import ConsumerTelemetry
from ...application.stop_signal import StopSignal
from .deal_created_dead_letter import Record
from .deal_created_lane import DealCreatedLane, Partition

CHUNK: Final = 100
"""Messages that are fetched, and then committed, together."""
FETCH_WAIT: Final = 1.0
"""Seconds that one fetch waits for messages."""


@frozen(kw_only=True)
class SessionTimes:
    """All in seconds.

    ``join`` is longer than the others of the group may take to hand their partitions over. ``answer`` bounds a commit
    and a probe, made every ``probe_interval``. ``close_grace`` is for the messages in hand, each a transaction,
    and their offsets; then they are rolled back.
    """

    join: float = 60.0
    answer: float = 15.0
    probe_interval: float = 10.0
    close_grace: float = 8.0


NewLane = Callable[[Partition], DealCreatedLane]


class GroupClient(Protocol):
    """What is used of aiokafka's consumer. Raises whatever that one raises."""

    def subscribe(self, topics: Sequence[str], *, listener: ConsumerRebalanceListener) -> None:
        """Before `start`."""
        ...

    async def start(self) -> None:
        """Connect, join the group, and get partitions."""
        ...

    async def stop(self) -> None:
        """Leave the group, within a bound; nothing of the client is left afterwards."""
        ...

    async def getmany(
        self, *places: TopicPartition, timeout_ms: int, max_records: int | None = None
    ) -> Mapping[TopicPartition, Sequence[Record]]:
        """The next messages of these partitions."""
        ...

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Tries for ever while the broker is out of reach."""
        ...

    async def committed(self, place: TopicPartition) -> int | None:
        """As the broker knows it now; tries for ever."""
        ...


@frozen
class GroupPartition:
    """See `Partition`. Another's as soon as the group has been balanced anew: then there is no commit."""

    _client: GroupClient
    _place: TopicPartition
    _answer_timeout: float

    async def fetch(self) -> Sequence[Record]:
        """See `Partition.fetch`."""
        fetched = await self._client.getmany(
            self._place, timeout_ms=int(FETCH_WAIT * 1000), max_records=CHUNK
        )
        return fetched.get(self._place, ())

    async def commit(self, offset: int) -> None:
        """See `Partition.commit`."""
        with suppress(CommitFailedError, IllegalStateError):
            async with asyncio.timeout(self._answer_timeout):
                await self._client.commit({self._place: offset})


@define(kw_only=True, eq=False)
class DealCreatedSession(ConsumerRebalanceListener):  # type: ignore[misc]  # its base has no types
    """Has a lane for each partition that the group gives it.

    Whatever the client says about the group or the broker ends the session; the next one is the caller's to start.
    ``is_well`` is called at each turn of a session that works, ``beat`` at each sign of life.
    """

    client: GroupClient
    topic: str
    new_lane: NewLane
    telemetry: ConsumerTelemetry
    run_id: UUID
    clock: Clock
    times: SessionTimes
    is_well: Callable[[], None]
    beat: Callable[[], None]
    _lanes: dict[DealCreatedLane, asyncio.Task[None]] = field(init=False)
    _failed: list[asyncio.Task[None]] = field(init=False)
    _closing: asyncio.Lock = field(factory=asyncio.Lock, init=False)
    _cancelled: bool = field(default=False, init=False)
    _leaving: bool = field(default=False, init=False)
    _probe_at: float = field(default=0.0, init=False)

    def __attrs_post_init__(self) -> None:
        self._lanes, self._failed = {}, []

    async def run(self, stop: StopSignal) -> None:
        """Join the group and handle messages until a stop is requested; then finish those in hand, commit, and leave.

        Raises what the client raises, once it has left. Cancelled, it rolls the messages in hand back.
        """
        self.client.subscribe([self.topic], listener=self)
        try:
            await stop.cut_short(self._join())
            while not stop.requested:
                self.beat()
                await stop.cut_short(self._turn())
        except asyncio.CancelledError:
            self._cancelled = True
            raise
        finally:
            self._leaving = True
            self.telemetry.partitions_assigned(self.run_id, [])
            try:
                await self._close_lanes()
            finally:
                await self.client.stop()

    # The library takes coroutines as well, whatever its base class looks like.
    async def on_partitions_revoked(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, revoked: Collection[TopicPartition]
    ) -> None:
        """The group is balanced anew, and whoever comes next begins where we committed.

        Heartbeats go on meanwhile. What the lanes could not commit is delivered again.
        """
        del revoked  # all of them, always
        await self._close_lanes()

    async def on_partitions_assigned(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, assigned: Collection[TopicPartition]
    ) -> None:
        """Open a lane for each."""
        if self._leaving:
            return
        self.telemetry.partitions_assigned(self.run_id, [place.partition for place in assigned])
        for place in assigned:
            lane = self.new_lane(GroupPartition(self.client, place, self.times.answer))
            self._lanes[lane] = asyncio.create_task(lane.run())

    async def _join(self) -> None:
        async with asyncio.timeout(self.times.join):
            await self.client.start()

    async def _turn(self) -> None:
        """Show the client that we are there, as it asks of its users, and hear what it says of the group."""
        nobodys = TopicPartition(self.topic, -1)
        with suppress(TimeoutError):  # while the group is balanced anew, the client waits for the end of that
            async with asyncio.timeout(2 * FETCH_WAIT):
                await self.client.getmany(nobodys, timeout_ms=int(FETCH_WAIT * 1000))
        for ended in (*self._failed, *(task for task in self._lanes.values() if task.done())):
            ended.result()
        if self.clock.monotonic() >= self._probe_at:
            await self._probe()
        self.is_well()  # not sooner: being in the group is nothing yet when no message can be fetched

    async def _probe(self) -> None:
        """The client keeps it to itself when the broker is out of reach."""
        async with asyncio.timeout(self.times.answer):
            await self.client.committed(TopicPartition(self.topic, 0))
        self._probe_at = self.clock.monotonic() + self.times.probe_interval

    async def _close_lanes(self) -> None:
        async with self._closing:
            lanes, self._lanes = self._lanes, {}
            tasks = list(lanes.values())
            for lane in lanes:
                lane.close()
            try:
                if tasks and not self._cancelled:
                    await asyncio.wait(tasks, timeout=self.times.close_grace)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                self._failed += [task for task in tasks if not task.cancelled() and task.exception()]
