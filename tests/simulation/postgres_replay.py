"""Plays a journal again on a real PostgreSQL, in the order in which it was written, and compares.

When statements arrive, what is lost, who is cancelled and whose wait takes too long is as in the journal. What a
statement does, what it answers and whether it waits for a lock is the server's own affair, and must be as there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from operator import attrgetter
from typing import Any, Final

from attrs import define, evolve, field
from messenger_jobs.adapters.memory.finalization import MemoryFinalizationStore
from messenger_jobs.adapters.memory.outbox_queue import MemoryOutboxQueue
from messenger_jobs.adapters.memory.provisioning import MemoryProvisioningStore
from messenger_jobs.adapters.memory.switch import Phase
from messenger_jobs.adapters.postgres.connection_pool import PooledConnections
from messenger_jobs.adapters.postgres.connections import Connections
from messenger_jobs.adapters.postgres.errors import TranslatedErrors
from messenger_jobs.adapters.postgres.finalization_store import PostgresFinalizationStore
from messenger_jobs.adapters.postgres.outbox_queue import PostgresOutboxQueue
from messenger_jobs.adapters.postgres.provisioning_store import PostgresProvisioningStore
from messenger_jobs.application.ports.errors import PortError, RowRolledBack
from messenger_jobs.application.ports.provisioning import Intent
from messenger_jobs.domain.deal_chat_provision import DealChatProvision
from messenger_jobs.domain.provisioning import ProvisionSnapshot

from tests.contract.provisioning_harness import sorted_members, unordered
from tests.simulation.journal import Call, CarriedOut, Ended, Event, Journal, Lost, Part, Seen, Sent, Written
from tests.simulation.journalled import JournalledPort
from tests.simulation.message_ids import MessageIds
from tests.simulation.paced_connection import PACE, Pace
from tests.simulation.postgres_rows import by_key, clear, columns_of, committed, differences, put
from tests.simulation.replay_server import ReplayServer
from tests.support.eventually import eventually

ADAPTERS: Final[dict[type, Callable[[Connections], object]]] = {
    MemoryProvisioningStore: PostgresProvisioningStore,
    MemoryFinalizationStore: PostgresFinalizationStore,
    MemoryOutboxQueue: PostgresOutboxQueue,
}
"""Who plays the part of whom."""

_LINES_TOLD: Final = 40
_WAITED_TOO_LONG: Final = "55P03"
_CANCELLED_STATEMENT: Final = "57014"


class Difference(AssertionError):
    """PostgreSQL did something else than the model."""


class AnotherOrder(Exception):
    """Of several who wait for a lock, another one has it first.

    PostgreSQL may do that, since it promises no order among those who wait for a row that is being changed. What
    follows is another history.
    """


async def replay(journal: Journal, server: ReplayServer) -> None:
    """Play it, beginning without any rows. Raises `Difference`, and `AnotherOrder` when it cannot be played on."""
    clear(server.observer)
    await _Replay(journal, server).go()


@define(eq=False)
class _Running:
    """A call that has begun and not ended."""

    pace: Pace
    task: asyncio.Task[Any]


@define(eq=False)
class _Replay:
    journal: Journal
    server: ReplayServer
    _objects: dict[object, Any] = field(factory=dict[object, Any], init=False)
    """Stores and units, by those of the journal whose part they play."""
    _contexts: dict[object, Any] = field(factory=dict[object, Any], init=False)
    """Those of open units and savepoints, by the calls that entered them."""
    _running: dict[Call, _Running] = field(factory=dict[Call, _Running], init=False)
    _waiting: dict[Call, int] = field(factory=dict[Call, int], init=False)
    """Calls that wait for a lock in the model, and which of their statements does."""
    _compared: dict[str, Any] = field(factory=dict[str, Any], init=False)
    """The model's rows when they were compared last, by table."""
    _ids: MessageIds = field(factory=MessageIds, init=False)

    async def go(self) -> None:
        place, events = 0, self.journal.events
        try:
            for place, event in enumerate(events):
                await self._follow(place, event)
            self._compared.clear()
            self._compare_rows(next(event for event in reversed(events) if isinstance(event, Seen)))
        except Difference as difference:
            told = [str(event) for event in events[: place + 1] if not isinstance(event, Seen)]
            story = "\n".join(told[-_LINES_TOLD:])
            raise Difference(f"{story}\n\n{difference}") from difference.__cause__
        finally:
            await self._leave()

    async def _leave(self) -> None:
        """Whatever is open because it was not played to the end."""
        for running in self._running.values():
            running.task.cancel()
        await asyncio.gather(*(each.task for each in self._running.values()), return_exceptions=True)
        for context in reversed(self._contexts.values()):
            await asyncio.gather(context.__aexit__(None, None, None), return_exceptions=True)

    async def _follow(self, place: int, event: Event) -> None:
        match event:
            case Sent(call, _) | Lost(call, _) if _is_end_of_unit(call):
                pass  # a rollback happens in any case, when the call ends
            case Sent(call, number):
                self._begun(call).pace.steps[number].may_go.set()
                if not self._goes_on_at_once(place, call):
                    await self._until_it_waits(call, number)
            case CarriedOut(call, number):
                await self._until_carried_out(call, number)
            case Lost(call, number):
                await self._lose(call, number)
            case Ended(call):
                await self._end(call)
            case Written(table, rows, error):
                self._write(table, rows, error)
            case Seen():
                self._compare_rows(event)

    def _goes_on_at_once(self, place: int, call: Call) -> bool:
        match self.journal.events[place + 1]:
            case CarriedOut(next_call, _):
                return next_call is call
            case Ended(next_call):
                return next_call is call and not _was_ended_in_a_wait(call)
            case _:
                return False

    async def _until_it_waits(self, call: Call, number: int) -> None:
        running = self._running[call]
        self._waiting[call] = number
        await eventually(lambda: running.task.done() or self.server.waits_for_us(running.pace.connection))
        if running.task.done():
            raise Difference(f"{call}: the model waits for a lock, PostgreSQL does not")

    async def _until_carried_out(self, call: Call, number: int) -> None:
        self._waiting.pop(call, None)
        running, last = self._running[call], number == len(call.statements) - 1
        step = running.pace.steps[number]
        # Behind the last statement that the journal knows, the adapter may need more of its own.
        whole = last and not step.loses(Phase.ANSWERED)
        await self._done(call, running.task if whole else step.carried_out)

    async def _lose(self, call: Call, number: int) -> None:
        running = self._begun(call)
        step = running.pace.steps[number]
        step.may_go.set()
        step.is_lost.set()
        await self._done(call, running.task)

    async def _end(self, call: Call) -> None:
        running = self._begun(call)
        if self._waiting.pop(call, None) is not None:
            self._end_wait(call, running)
        await self._done(call, running.task)
        self._compare_outcomes(call, running.task)
        del self._running[call]

    def _end_wait(self, call: Call, running: _Running) -> None:
        """As somebody, or the time, has ended it; a circle of waits the server ends by itself."""
        if not isinstance(call.error, Exception):
            running.task.cancel()
        elif _was_ended_in_a_wait(call):
            assert running.pace.connection is not None, "it waits on one"
            self.server.cancel_statement(running.pace.connection)

    async def _done(self, call: Call, outcome: asyncio.Future[Any]) -> None:
        """Once the outcome is there, or the call has failed before."""
        running = self._running[call]
        while not outcome.done() and not running.task.done():
            await asyncio.wait({outcome, running.task}, timeout=1.0, return_when=asyncio.FIRST_COMPLETED)
            if not outcome.done() and self.server.waits_for_us(running.pace.connection):
                if any(map(self._went_on, self._waiting)):
                    raise AnotherOrder
                raise Difference(f"{call}: PostgreSQL waits for a lock, the model does not")

    def _went_on(self, waiting: Call) -> bool:
        running = self._running[waiting]
        return running.task.done() or running.pace.steps[self._waiting[waiting]].carried_out.done()

    def _begun(self, call: Call) -> _Running:
        running = self._running.get(call)
        if running is None:
            pace = Pace.of([] if _is_end_of_unit(call) else call.statements)
            running = self._running[call] = _Running(pace, asyncio.create_task(self._at(pace, call)))
        return running

    async def _at(self, pace: Pace, call: Call) -> Any:
        PACE.set(pace)
        return await self._made(call)

    def _made(self, call: Call) -> Awaitable[Any]:
        arguments, options = call.arguments, call.options
        if call.part is Part.EXIT:
            (error,) = arguments
            kind = None if error is None else type(error)
            exited: Awaitable[Any] = self._contexts.pop(call.recipient).__aexit__(kind, error, None)
            return exited
        if _is_of_queue(call):
            arguments, options = self._ids.real(arguments), self._ids.real_options(options)
        made = attrgetter(call.method)(self._object(call.recipient))(*arguments, **options)
        return self._entered(call, made) if call.part is Part.ENTRANCE else made

    async def _entered(self, call: Call, context: Any) -> None:
        self._objects[call.result] = await context.__aenter__()
        self._contexts[call] = context

    def _object(self, recipient: object) -> Any:
        if recipient not in self._objects:
            assert isinstance(recipient, JournalledPort), "units are there since they were entered"
            adapter = next(ADAPTERS[kind] for kind in ADAPTERS if isinstance(recipient.port, kind))
            self._objects[recipient] = adapter(PooledConnections(self.server.pool))
        return self._objects[recipient]

    def _write(self, table: str, rows: Any, expected: PortError | None) -> None:
        error: PortError | None = None
        try:
            with TranslatedErrors():
                put(self.server.people, table, rows)
        except PortError as refusal:
            error = refusal
        _compare(f"somebody writes {table}", _kind(expected), _kind(error))

    def _compare_outcomes(self, call: Call, task: asyncio.Task[Any]) -> None:
        if call.error is not None and not isinstance(call.error, Exception):
            return  # killed or cancelled: nobody is there to be told anything
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, PortError):
            raise Difference(f"{call}: PostgreSQL's adapter raises {error!r}") from error
        _compare(str(call), _kind(call.error), _kind(error))
        if error is None and call.part is Part.WHOLE:
            result = call.result
            if _is_of_queue(call):
                result = self._ids.real_result(call.method, result)
            _compare(str(call), _without_order(call, result), _without_order(call, task.result()))

    def _compare_rows(self, seen: Seen) -> None:
        """Of the tables that have changed in the model; of all of them in the end."""
        tables = [table for table, rows in seen.rows.items() if rows != self._compared.get(table)]
        if not tables:
            return
        real = committed(self.server.observer, tables)
        if "outbox_messages" in real:
            self._ids.learn(seen.rows["outbox_messages"], real["outbox_messages"])
        if self._waiting:
            return  # whoever waited may be further on already
        for table in tables:
            self._compared[table] = seen.rows[table]
            model = by_key(table, [columns_of(row) for row in seen.rows[table]])
            if lines := differences(table, model, by_key(table, real[table])):
                raise Difference("\n".join(lines))


def _is_end_of_unit(call: Call) -> bool:
    return call.part is Part.EXIT and call.method == "begin"


def _is_of_queue(call: Call) -> bool:
    return isinstance(call.recipient, JournalledPort) and isinstance(call.recipient.port, MemoryOutboxQueue)


def _was_ended_in_a_wait(call: Call) -> bool:
    """Whether a call whose statement was never carried out waited too long, or with its process was ended."""
    match call.error:
        case RowRolledBack():
            return call.error.code == _WAITED_TOO_LONG
        case error:
            return error is not None and not isinstance(error, Exception)


def _kind(error: BaseException | None) -> object:
    """An error without its sentence. Waits are cut short by hand here, where the server's clock would do it."""
    if not isinstance(error, PortError):
        return error
    kind = next(kind for kind in type(error).__mro__ if PortError in kind.__bases__)
    code = _WAITED_TOO_LONG if error.code == _CANCELLED_STATEMENT else error.code
    return kind.__name__, code


def _without_order(call: Call, result: Any) -> Any:
    """A result without an order that the port does not promise."""
    match result:
        case ProvisionSnapshot():
            return unordered(result)
        case DealChatProvision():
            return sorted_members(result)
        case Intent():
            return evolve(result, seen=unordered(result.seen))
        case list() if call.method.endswith("_ids"):
            return sorted(result)
        case list():
            return [_without_order(call, each) for each in result]
        case _:
            return result


def _compare(what: str, model: object, real: object) -> None:
    if model != real:
        raise Difference(f"{what}\n  the model:  {model}\n  PostgreSQL: {real}")
