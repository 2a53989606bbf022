"""A broker that does as it is told."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from uuid import UUID

from attrs import define, field
from messenger_jobs.application.ports.event_publisher import Event, Published, Receipt

Action = Callable[[], Awaitable[object] | object] | BaseException


@define(eq=False)
class ScriptedPublisher:
    """An `EventPublisher` that keeps what it acknowledges in ``log``, unless told otherwise.

    ``answers`` are the next receipts of an event by its number, ``every`` is the receipt of whatever is sent while it
    is set, ``before`` and ``after`` happen, once each, before the next sendings and before their receipts come back.
    """

    log: list[int] = field(factory=list[int])
    sent: list[list[int]] = field(factory=list[list[int]])
    events: list[Event] = field(factory=list[Event])
    answers: defaultdict[int, list[Receipt]] = field(factory=lambda: defaultdict[int, list[Receipt]](list))
    every: Receipt | None = None
    before: list[Action] = field(factory=list[Action])
    after: list[Action] = field(factory=list[Action])

    async def publish(self, events: Sequence[Event]) -> Sequence[Receipt]:
        if len({(event.topic, event.key) for event in events}) < len(events):
            raise ValueError("two events of one key in one call")
        numbers = [number_of(event) for event in events]
        self.sent.append(numbers)
        self.events.extend(events)
        await _perform(self.before)
        await asyncio.sleep(0)
        receipts = [self._receipt(number) for number in numbers]
        await _perform(self.after)
        return receipts

    def _receipt(self, number: int) -> Receipt:
        if self.answers[number]:
            receipt = self.answers[number].pop(0)
        elif self.every is not None:
            receipt = self.every
        else:
            receipt = Published(partition=number % 3, offset=len(self.log))
        if isinstance(receipt, Published):
            self.log.append(number)
        return receipt


def number_of(event: Event) -> int:
    """The number that an outbox message of `an_outbox_message` was made from."""
    return UUID(dict(event.headers)["event-id"].decode()).int


async def _perform(script: list[Action]) -> None:
    if script:
        action = script.pop(0)
        if isinstance(action, BaseException):
            raise action
        doing = action()
        if isinstance(doing, Awaitable):
            await doing
