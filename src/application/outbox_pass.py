"""One pass of the relay over the outbox: rounds of messages, their receipts, and their marks."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, assert_never
from uuid import UUID

from attrs import define, field

from .cycle_report import CycleEnd
from .event_envelope import UnserialisableMessage, envelope
from .failing_keys import FailingKeys, Key
from .finishing import asked_to_end, ended_before, finishing
from .heartbeat import Beat
from .ports.clock import Clock
from .ports.errors import Misconfigured, PortError
from .ports.event_publisher import Event, EventPublisher, NotPublished, Published, Receipt, Unpublishable
from .ports.outbox_queue import FailedMessage, OutboxQueue, PublishedMessage, QueuedMessage
from .ports.relay_telemetry import RelayTelemetry
from .ports.run_lock import RunLease
from .relay_report import MessageFailure, PassReport
from .stop_signal import StopSignal
from .trouble import Trouble, TroubleKind

ROUND_GRACE: Final = 3.0
"""Seconds in which a round may still get its receipts after a cancellation, and as many in which they are marked."""

STOP_GRACE: Final = 10.0
"""Seconds that a round in hand has after a stop request. A broker that answers at all does so sooner, and a send
time-out may be as long as the whole time that a worker has for stopping."""

BATCHES_PER_PASS: Final = 20
"""So many batches' worth of published messages end a pass, so that what was committed late under an earlier id, and
what waits for another attempt, gets its turn. Messages that are held back do not count: they must hide nobody."""

Lanes = dict[Key, deque[QueuedMessage]]
"""A batch by topic and key, each in the order of ids; only the first of a lane may be sent."""


@define(kw_only=True, eq=False)
class OutboxPass:
    """Everything committed is offered to the broker once, in batches by id from the lowest one.

    A message is only sent when everything before it of its topic and key is published or parked. The receipts of a
    round are marked, and the next batch is read, while the next round is with the broker. ``unmarked`` outlives the
    pass: receipts whose mark failed are marked first by the next pass, instead of being sent again.
    """

    run_id: UUID
    queue: OutboxQueue
    publisher: EventPublisher
    clock: Clock
    telemetry: RelayTelemetry
    batch_size: int
    failing: FailingKeys
    unmarked: list[PublishedMessage]
    lease: RunLease
    stop: StopSignal
    beat: Beat
    published: int = field(default=0, init=False)
    failed: int = field(default=0, init=False)
    parked: int = field(default=0, init=False)
    held_back: int = field(default=0, init=False)
    more: bool = field(default=False, init=False)
    end: CycleEnd | None = field(default=None, init=False)
    trouble: Trouble | None = field(default=None, init=False)
    _held: set[Key] = field(factory=set[Key], init=False)
    _up_to: int = field(default=0, init=False)
    _next_batch: Sequence[QueuedMessage] | None = field(default=None, init=False)
    _events: Mapping[int, Event | Unpublishable] = field(factory=dict[int, Event | Unpublishable], init=False)
    _next_events: Mapping[int, Event | Unpublishable] = field(
        factory=dict[int, Event | Unpublishable], init=False
    )
    _late_at: float | None = field(default=None, init=False)

    async def run(self) -> PassReport:
        """Make the pass. Failures end in the report, never in an exception.

        Cancellation propagates; the round in hand, and then its receipts' marks, get `ROUND_GRACE` seconds before.
        """
        started_at, started = self.clock.now(), self.clock.monotonic()
        try:
            await self._drain()
        except asyncio.CancelledError as error:
            if asked_to_end():
                raise
            self._abort(trouble_of(error))
        except Exception as error:  # noqa: BLE001 - the report says it, and the loop goes on
            self._abort(trouble_of(error))
        return self._report(started_at, timedelta(seconds=self.clock.monotonic() - started))

    async def _drain(self) -> None:
        await self._mark_published()
        if not await self._goes_on():
            return
        newest = await self.queue.newest_id()
        if newest is None:
            return
        # What is committed from now on is for the next pass: else a batch that is read later could hold a message whose
        # predecessor was committed meanwhile under an id that was passed by already.
        self._up_to = newest
        try:
            await self._publish_all()
        finally:
            if self.unmarked:
                await self._to_its_end(self._mark_published())

    async def _publish_all(self) -> None:
        batch = await self._batch_behind(0)
        while batch and await self._goes_on():
            self._next_batch, self._events, self._next_events = None, self._next_events, {}
            await self._publish(batch)
            if self.published >= BATCHES_PER_PASS * self.batch_size:
                self.more = True
                return
            if self._next_batch is None and self._may_go_on():
                self._next_batch = await self._batch_behind(batch[-1].id)
            batch = self._next_batch or []

    async def _batch_behind(self, id: int) -> Sequence[QueuedMessage]:
        if id == self._up_to:
            return []
        return await self.queue.unpublished(after_id=id, up_to=self._up_to, limit=self.batch_size)

    async def _publish(self, batch: Sequence[QueuedMessage]) -> None:
        lanes = self._lanes(batch)
        if lanes and not await self._confirm():
            return
        while lanes and await self._goes_on():
            await self._to_its_end(self._round(lanes, last_id=batch[-1].id))
            self.beat()

    async def _to_its_end(self, work: Coroutine[Any, Any, object]) -> None:
        """Also when a stop is requested or the pass is cancelled; then for a bounded time."""
        in_time = await finishing(ended_before(work, self._stop_is_late()), within=ROUND_GRACE)
        if not in_time and self.end is None:
            self.end = CycleEnd.STOPPED

    async def _stop_is_late(self) -> None:
        await self.stop.wait()
        now = self.clock.monotonic()
        if self._late_at is None:
            self._late_at = now + STOP_GRACE
        await self.clock.sleep(max(0.0, self._late_at - now))

    def _lanes(self, batch: Sequence[QueuedMessage]) -> Lanes:
        now = self.clock.monotonic()
        lanes: Lanes = {}
        for message in batch:
            key = _key(message)
            if key in self._held or self.failing.waits(key, now=now):
                # For the rest of the pass, also when its wait ends before: what is behind it must not overtake it.
                self._held.add(key)
                self.held_back += 1
            else:
                lanes.setdefault(key, deque()).append(message)
        return lanes

    async def _round(self, lanes: Lanes, *, last_id: int) -> None:
        """Send the first message of every lane, so no two of one key, and see what became of each.

        Meanwhile the receipts of the round before are marked, and what follows the batch's ``last_id`` is read.
        """
        heads = sorted((lane[0] for lane in lanes.values()), key=lambda message: message.id)
        *meanwhile, receipts = await asyncio.gather(
            self._mark_published(), self._read_on(last_id), self._send(heads), return_exceptions=True
        )
        if isinstance(receipts, BaseException):
            raise receipts
        outage: str | None = None
        failures: list[tuple[QueuedMessage, Unpublishable | NotPublished]] = []
        for head in heads:
            match receipt := receipts[head.id]:
                case Published():
                    self.unmarked.append(
                        PublishedMessage(id=head.id, partition=receipt.partition, offset=receipt.offset)
                    )
                    self.published += 1
                    self._went_on(lanes, head)
                case NotPublished(outage=True):
                    outage = outage or receipt.code
                case Unpublishable() | NotPublished():
                    failures.append((head, receipt))
                case _:
                    assert_never(receipt)
        for failure in filter(None, meanwhile):
            raise failure
        if outage is None:
            await self._mark_failed(lanes, failures)
        else:
            self._abort(Trouble(kind=TroubleKind.BROKER, code=outage))

    async def _read_on(self, last_id: int) -> None:
        if self._next_batch is None:
            batch = await self._batch_behind(last_id)
            # Here, since the broker is still busy; a round begins with what everybody else waits for.
            self._next_events = {queued.id: _enveloped(queued) for queued in batch}
            self._next_batch = batch

    async def _send(self, heads: Sequence[QueuedMessage]) -> Mapping[int, Receipt]:
        receipts: dict[int, Receipt] = {}
        events: dict[int, Event] = {}
        for head in heads:
            match event := self._events.get(head.id) or _enveloped(head):
                case Event():
                    events[head.id] = event
                case Unpublishable():
                    receipts[head.id] = event
        if events:
            answers = await self.publisher.publish(list(events.values()))
            receipts.update(zip(events, answers, strict=True))
        return receipts

    async def _mark_published(self) -> None:
        if self.unmarked:
            await self.queue.mark_published(self.unmarked, at=self.clock.now())
            self.unmarked.clear()

    async def _mark_failed(
        self, lanes: Lanes, failures: Sequence[tuple[QueuedMessage, Unpublishable | NotPublished]]
    ) -> None:
        if not failures:
            return
        await self._mark_published()  # what cannot be found out again comes first
        marks = [
            FailedMessage(
                id=head.id, error_code=_stored(receipt.code), dead=isinstance(receipt, Unpublishable)
            )
            for head, receipt in failures
        ]
        await self.queue.mark_failed(marks, at=self.clock.now())
        for head, receipt in failures:
            failure = MessageFailure(
                event_id=head.message.event_id,
                topic=head.message.topic,
                error_code=_stored(receipt.code),
                attempts=head.attempts + 1,
            )
            if isinstance(receipt, Unpublishable):
                self.parked += 1
                self._went_on(lanes, head)
                self.telemetry.message_parked(self.run_id, failure)
            else:
                self.failed += 1
                self._hold_back(lanes, head)
                self.telemetry.message_failed(self.run_id, failure)

    def _went_on(self, lanes: Lanes, head: QueuedMessage) -> None:
        key = _key(head)
        self.failing.went_on(key)
        lane = lanes[key]
        lane.popleft()
        if not lane:
            del lanes[key]

    def _hold_back(self, lanes: Lanes, head: QueuedMessage) -> None:
        key = _key(head)
        self.failing.failed(key, now=self.clock.monotonic())
        self._held.add(key)
        self.held_back += len(lanes.pop(key)) - 1

    def _may_go_on(self) -> bool:
        if self.end is None and self.stop.requested:
            self.end = CycleEnd.STOPPED
        return self.end is None

    async def _goes_on(self) -> bool:
        return self._may_go_on() and await self._still_holder()

    async def _still_holder(self) -> bool:
        """Cheap before every reading and every round: only a lease in the second half of its TTL is asked for."""
        if self.lease.expired:
            return self._lost()
        return not self.lease.confirmation_due or await self._confirm()

    async def _confirm(self) -> bool:
        return await self.lease.confirm() or self._lost()

    def _lost(self) -> bool:
        self.end = CycleEnd.LOCK_LOST
        self.telemetry.lock_lost(self.run_id)
        return False

    def _abort(self, trouble: Trouble) -> None:
        self.end, self.trouble = CycleEnd.ABORTED, trouble

    def _report(self, started_at: datetime, duration: timedelta) -> PassReport:
        return PassReport(
            run_id=self.run_id,
            started_at=started_at,
            duration=duration,
            end=self.end or CycleEnd.COMPLETED,
            published=self.published,
            failed=self.failed,
            parked=self.parked,
            held_back=self.held_back,
            more=self.more,
            trouble=self.trouble,
        )


def trouble_of(error: BaseException) -> Trouble:
    """What an exception means for the relay."""
    match error:
        case Misconfigured():
            return Trouble(kind=TroubleKind.CONFIGURATION, code=error.code, error=error)
        case PortError():
            return Trouble(kind=TroubleKind.DATABASE, code=error.code, error=error)
        case _:
            return Trouble(kind=TroubleKind.DEFECT, code=f"Defect:{type(error).__name__}", error=error)


def _enveloped(queued: QueuedMessage) -> Event | Unpublishable:
    try:
        return envelope(queued.message)
    except UnserialisableMessage as error:
        return Unpublishable(code=error.code)


def _stored(code: str) -> str:
    """A class and a code, as in every ``last_error``."""
    return code if ":" in code else f"Broker:{code}"


def _key(queued: QueuedMessage) -> Key:
    return queued.message.topic, queued.message.message_key
