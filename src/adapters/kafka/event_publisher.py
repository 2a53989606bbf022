"""Events to Kafka."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence, Set
from contextlib import suppress
from typing import Any, Final, Self

from aiokafka.errors import KafkaError, ProducerClosed  # type: ignore[import-untyped]  # ships no types
from attrs import frozen

from ...application.ports.errors import Misconfigured
from ...application.ports.event_publisher import (
    Event,
    NotPublished,
    Published,
    Receipt,
    Unpublishable,
    ensure_keys_differ,
)
from .abandonable_producer import AbandonableProducer
from .errors import TIMED_OUT, TOO_LARGE, UNKNOWN_TOPIC, Failure, SequenceLost, failure_of
from .security import KafkaSecurity

_ROUNDS: Final = 3  # with a new producer each, for events that lost theirs through no fault of their own

_Outcome = Published | Failure
_TIMED_OUT: Final = NotPublished(code=TIMED_OUT, outage=True)
_ENDED: Final = NotPublished(code="PRODUCER_CLOSED", outage=True)
_TOO_LARGE_TOGETHER: Final = NotPublished(code=TOO_LARGE, outage=False)

_Lane = tuple[str, bytes | None]
"""A topic and a key: events in one lane are kept in order."""


@frozen
class _UnderWay:
    """An event that was handed to the producer, which keeps sending it until a broker answers for its whole batch."""

    event: Event
    answer: asyncio.Future[Any]
    place: int
    """In the batch; counted from 0."""


class KafkaEventPublisher:
    """See `EventPublisher`: one idempotent producer that waits for every replica (acks=all).

    The producer is started by the first `publish`, so a publisher can be made while every broker is down. It lives
    through outages: what it was sending it goes on sending, under the same sequence numbers, so the broker stores it
    once and in its place however often the connection broke. An event that is still under way is not handed over a
    second time; another one of its topic and key waits until that is settled. A producer is given up and replaced by
    the next `publish` only when it cannot go on, its sequence being lost, as after any refusal by a broker. What it had
    under way may then arrive besides, but only what had reached a broker's host before: its connections are cut first.

    `send_timeout` bounds a `publish`, `stop_timeout` a `close`; in seconds. Events of more than `max_message_bytes` are
    unpublishable without asking the broker, which has limits of its own.

    Used by ``async with``, or ended by `close`; in one event loop, by any number of tasks at once.
    """

    def __init__(
        self,
        security: KafkaSecurity,
        *,
        send_timeout: float = 30.0,
        stop_timeout: float = 5.0,
        max_message_bytes: int = 1_048_576,
    ) -> None:
        self._security = security
        self._send_timeout = send_timeout
        self._stop_timeout = stop_timeout
        self._max_message_bytes = max_message_bytes
        self._producer: AbandonableProducer | None = None
        self._spent = False
        self._under_way: dict[_Lane, _UnderWay] = {}
        self._sending: list[asyncio.Task[None]] = []
        self._turn = asyncio.Lock()
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def publish(self, events: Sequence[Event]) -> Sequence[Receipt]:
        """See `EventPublisher.publish`. One publish at a time: others wait, and their time runs.

        Raises:
            Misconfigured: see the port.
            RuntimeError: the publisher is closed.
        """
        if self._closed:
            raise RuntimeError("the publisher is closed")
        ensure_keys_differ(events)
        outcomes: dict[_Lane, _Outcome] = {}
        with suppress(TimeoutError):
            async with asyncio.timeout(self._send_timeout), self._turn:
                self._forget_settled(keep={_lane(event) for event in events})
                await self._publish(events, outcomes)
        return self._receipts([outcomes.get(_lane(event), _TIMED_OUT) for event in events])

    async def close(self) -> None:
        """Wait for what is under way, at most `stop_timeout`, and leave nothing behind; once is enough."""
        self._closed = True
        try:
            if pending := [entry.answer for entry in self._under_way.values() if not entry.answer.done()]:
                await asyncio.wait(pending, timeout=self._stop_timeout)
        finally:
            await self._give_up()

    async def _publish(self, events: Sequence[Event], outcomes: dict[_Lane, _Outcome]) -> None:
        await self._send_all(events, outcomes)
        for _ in range(_ROUNDS - 1):
            if not (lost := [event for event in events if isinstance(outcomes[_lane(event)], SequenceLost)]):
                break
            await self._send_all(lost, outcomes)
        # A batch is refused as a whole, for one event in it: only an event that was sent alone is the one.
        for event in [event for event in events if outcomes[_lane(event)] == _TOO_LARGE_TOGETHER]:
            await self._send_all([event], outcomes)
            if outcomes[_lane(event)] == _TOO_LARGE_TOGETHER:
                outcomes[_lane(event)] = Unpublishable(code=TOO_LARGE)

    async def _send_all(self, events: Sequence[Event], outcomes: dict[_Lane, _Outcome]) -> None:
        try:
            producer = await self._working_producer()
        except (KafkaError, OSError) as error:
            failure = failure_of(error)
            if isinstance(failure, Misconfigured) and not outcomes:
                raise failure from error
            outcomes.update({_lane(event): NotPublished(code=failure.code, outage=True) for event in events})
            return
        behind, free = list[Event](), defaultdict[str, list[Event]](list)
        for event in events:
            (behind if _lane(event) in self._under_way else free[event.topic]).append(event)
        try:
            async with asyncio.TaskGroup() as group:
                sending = [self._send_behind(producer, event, outcomes) for event in behind]
                sending += [self._send(producer, topic, its, outcomes) for topic, its in free.items()]
                self._sending = [group.create_task(each) for each in sending]
        finally:
            self._sending = []
        for event in events:
            outcomes.setdefault(_lane(event), _ENDED)

    async def _working_producer(self) -> AbandonableProducer:
        """Raises what aiokafka raises when no broker can be reached."""
        if self._producer is not None and (self._spent or not self._producer.works):
            await self._give_up()
        if self._producer is None:
            self._producer = await self._started_producer()
        elif self._under_way:
            await self._producer.ask_for_brokers()  # else each publish of an outage would take its whole time
        return self._producer

    async def _started_producer(self) -> AbandonableProducer:
        producer = AbandonableProducer(
            self._security,
            request_timeout=self._send_timeout / 3,
            max_message_bytes=self._max_message_bytes,
        )
        try:
            await producer.start()
            if self._closed:
                raise ProducerClosed
        except BaseException:
            await producer.abandon()
            raise
        return producer

    async def _send_behind(
        self, producer: AbandonableProducer, event: Event, outcomes: dict[_Lane, _Outcome]
    ) -> None:
        lane = _lane(event)
        earlier = self._under_way[lane]
        await asyncio.wait([earlier.answer])
        outcome = self._settled(earlier)
        if earlier.event == event:
            outcomes[lane] = outcome
        else:
            await self._send(producer, event.topic, [event], outcomes)

    async def _send(
        self,
        producer: AbandonableProducer,
        topic: str,
        events: Sequence[Event],
        outcomes: dict[_Lane, _Outcome],
    ) -> None:
        """Events of one topic, of which none is under way; each partition's for themselves."""
        sendable: list[Event] = []
        for event in events:
            if event.key is None and event.value is None:
                outcomes[_lane(event)] = Unpublishable(
                    code="NO_KEY_AND_NO_VALUE"
                )  # aiokafka does not take it
            elif not producer.takes(event):
                outcomes[_lane(event)] = Unpublishable(code=TOO_LARGE)
            else:
                sendable.append(event)
        try:
            known = not sendable or await producer.knows(topic)
        except (KafkaError, OSError) as error:
            outcomes.update(dict.fromkeys(map(_lane, sendable), failure_of(error)))
            return
        if not known:
            outcomes.update(
                dict.fromkeys(map(_lane, sendable), NotPublished(code=UNKNOWN_TOPIC, outage=False))
            )
            return
        async with asyncio.TaskGroup() as group:
            for partition, its in producer.by_partition(topic, sendable).items():
                group.create_task(self._send_to(producer, topic, partition, its, outcomes))

    async def _send_to(
        self,
        producer: AbandonableProducer,
        topic: str,
        partition: int,
        events: Sequence[Event],
        outcomes: dict[_Lane, _Outcome],
    ) -> None:
        """Cancelled, it leaves under way what no broker has answered yet."""
        sent: list[_UnderWay] = []
        try:
            try:
                while left := events[len(sent) :]:
                    batch, answer = await producer.send(topic, partition, left)
                    handed_over = [_UnderWay(event, answer, place) for place, event in enumerate(batch)]
                    self._under_way.update((_lane(entry.event), entry) for entry in handed_over)
                    sent += handed_over
            except (KafkaError, OSError) as error:
                not_sent = events[len(sent) :]
                outcomes.update(dict.fromkeys(map(_lane, not_sent), failure_of(error)))
            if sent:
                await asyncio.wait({entry.answer for entry in sent})
        finally:
            outcomes.update(
                (_lane(entry.event), self._settled(entry)) for entry in sent if entry.answer.done()
            )

    def _settled(self, entry: _UnderWay) -> _Outcome:
        """What became of an event whose answer is there."""
        self._under_way.pop(_lane(entry.event), None)
        return self._outcome(entry)

    def _outcome(self, entry: _UnderWay) -> _Outcome:
        if entry.answer.cancelled():
            return _ENDED
        if (error := entry.answer.exception()) is None:
            record = entry.answer.result()
            known = record.offset >= 0  # not of a record that the broker had already
            return Published(
                partition=record.partition, offset=record.offset + entry.place if known else None
            )
        self._spent = True  # the refused numbers are missing from the sequence for ever
        failure = failure_of(error)
        return _TOO_LARGE_TOGETHER if failure == Unpublishable(code=TOO_LARGE) else failure

    def _receipts(self, outcomes: Sequence[_Outcome]) -> Sequence[Receipt]:
        # Brokers that keep their connections and took other events have no answer for these alone.
        connected = self._producer is not None and self._producer.connected
        out_of_reach = not (connected and any(isinstance(outcome, Published) for outcome in outcomes))
        return [_receipt(outcome, out_of_reach) for outcome in outcomes]

    def _forget_settled(self, keep: Set[_Lane]) -> None:
        """What was settled since, and is not asked for again."""
        for lane, entry in list(self._under_way.items()):
            if entry.answer.done() and lane not in keep:
                self._outcome(entry)
                del self._under_way[lane]

    async def _give_up(self) -> None:
        producer, self._producer = self._producer, None
        for sending in self._sending:
            sending.cancel()
        for entry in self._under_way.values():
            if not entry.answer.cancel():
                self._outcome(entry)
        self._under_way.clear()
        self._spent = False
        if producer is not None:
            await producer.abandon()


def _lane(event: Event) -> _Lane:
    return event.topic, event.key


def _receipt(outcome: _Outcome, out_of_reach: bool) -> Receipt:
    match outcome:
        case NotPublished(code=code) if code == TIMED_OUT:
            return NotPublished(code=TIMED_OUT, outage=out_of_reach)
        case SequenceLost(code=code):
            return NotPublished(code=code, outage=True)  # no fault of the event
        case Misconfigured(code=code):
            return NotPublished(code=code, outage=False)
        case _:
            return outcome
