"""One partition: its messages in their order, each until it is done with."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from attrs import define, field

from ...application.finishing import asked_to_end
from ...application.ports.clock import Clock
from ...application.ports.entropy import Spread
from ...application.ports.errors import PortError
from ...application.stop_signal import StopSignal
from ...domain.backoff import BackoffPolicy
from .deal_created_dead_letter import Record, place_of
from .deal_created_handler import TRIES, DealCreatedHandler
from .deal_created_troubles import Troubles, trouble_with_message


class Partition(Protocol):
    """A partition as long as the group gives it to this consumer."""

    async def fetch(self) -> Sequence[Record]:
        """The next messages, each once and in order; none after a while. Cancellable, and then none is skipped."""
        ...

    async def commit(self, offset: int) -> None:
        """Go on with ``offset`` after a restart, here or elsewhere. Does nothing when the partition is another's now.

        Raises what its client raises when the group does not answer; whether it is committed is not known then.
        """
        ...


@define(kw_only=True, eq=False)
class DealCreatedLane:
    """Handles a partition's messages one after the other until it is closed.

    A message that cannot be handled through no fault of its own is tried again after a backoff, for as long as it
    takes: what comes after it waits, other partitions do not. One that meets a defect of ours is set aside after some
    tries.

    The offset is committed after each chunk of messages, and before each wait. A crash in between has the messages
    delivered again, which changes nothing.
    """

    partition: Partition
    handler: DealCreatedHandler
    troubles: Troubles
    slots: asyncio.Semaphore
    clock: Clock
    backoff: BackoffPolicy
    spread: Spread
    _closing: StopSignal = field(factory=StopSignal, init=False)
    _fetched: Sequence[Record] = field(default=(), init=False)
    _done_to: int | None = field(default=None, init=False)
    _committed: int | None = field(default=None, init=False)

    async def run(self) -> None:
        """Return once closed, with the message in hand handled and committed.

        Raises what `Partition` raises. Cancelled, the message in hand is rolled back and nothing
        more committed.
        """
        try:
            while not self._closing.requested:
                await self._closing.cut_short(self._fetch())
                fetched, self._fetched = self._fetched, ()
                for record in fetched:
                    if self._closing.requested or not await self._see_through(record):
                        break
                await self._commit()
        finally:
            self.troubles.is_gone(self)

    def close(self) -> None:
        """Have `run` start no further message."""
        self._closing.request()

    async def _fetch(self) -> None:
        self._fetched = await self.partition.fetch()

    async def _see_through(self, record: Record) -> bool:
        """Whether it is done with; False when the lane is closed first."""
        failures = 0
        defects: list[BaseException] = []
        while not await self._try(record, defects):
            failures += 1
            await self._commit()
            delay = self.backoff.delay(failures, self.spread())
            await self._closing.cut_short(self.clock.sleep(delay.total_seconds()))
            if self._closing.requested:
                return False
        self.troubles.is_well(self)
        self._done_to = record.offset + 1
        return True

    async def _try(self, record: Record, defects: list[BaseException]) -> bool:
        try:
            async with self.slots:
                if len(defects) < TRIES:
                    await self.handler.handle(record)
                else:
                    await self.handler.give_up(record, defects[-1])
        except PortError as error:
            self.troubles.has(self, trouble_with_message(error))
        except asyncio.CancelledError as error:
            if asked_to_end():
                raise
            self._met(error, record, defects)  # a cancellation of our own making would end the lane unnoticed
        except Exception as error:  # noqa: BLE001 - one message's defect must not stop the others
            self._met(error, record, defects)
        else:
            return True
        return False

    def _met(self, error: BaseException, record: Record, defects: list[BaseException]) -> None:
        self.handler.telemetry.defect(self.handler.run_id, place_of(record), error)
        defects.append(error)

    async def _commit(self) -> None:
        if self._done_to is not None and self._done_to != self._committed:
            await self.partition.commit(self._done_to)
            self._committed = self._done_to
