"""The database and its ports as a history has them whose journal is kept."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define, frozen
from messenger_jobs.adapters.memory.clock import ManualClock
from messenger_jobs.adapters.memory.schema import MessengerDatabase
from messenger_jobs.adapters.memory.switch import Phase, Step, Switch
from messenger_jobs.adapters.memory.table import Row, Table
from messenger_jobs.application.ports.errors import PortError

from tests.simulation.faults import Port
from tests.simulation.journal import Call, CarriedOut, Journal, Loss, Lost, Part, Seen, Sent, Written

if TYPE_CHECKING:
    from tests.simulation.process import Process

AnyPort = TypeVar("AnyPort")


def journalled(process: Process, port: AnyPort) -> AnyPort:
    """The port as the process is to use it."""
    journal = process.world.journal
    return port if journal is None else cast("AnyPort", JournalledPort(journal, process.name, port))


def database_switch(process: Process) -> Switch:
    """The switch of the process's exchanges with the database."""
    journal, switch = process.world.journal, process.exchange(Port.DATABASE)
    return switch if journal is None else _JournalledSwitch(journal, switch)


class JournalledDatabase(MessengerDatabase):
    """Notes what people and other software write."""

    def __init__(self, clock: ManualClock, journal: Journal) -> None:
        super().__init__(clock)
        self._journal = journal

    def put(self, table: Table[Row], *rows: Row) -> None:
        """See `MemoryDatabase.put`."""
        error: PortError | None = None
        try:
            super().put(table, *rows)
        except PortError as refusal:
            error = refusal
            raise
        finally:
            self._journal.events.append(Written(table.name, rows, error))


def tables_of(database: MessengerDatabase) -> Sequence[Table[Any]]:
    """All of them, each behind those that it refers to."""
    return (
        database.chats,
        database.participants,
        database.chat_events,
        database.provisions,
        database.members,
        database.outbox,
        database.recordings,
        database.finalizations,
        database.realtime_outbox,
    )


def seen(database: MessengerDatabase) -> Seen:
    """What is committed now."""
    return Seen({table.name: table.rows() for table in tables_of(database)})


@define(eq=False, repr=False)
class JournalledPort:
    """Whatever it is asked for is asked of the port, and written down."""

    _journal: Journal
    _by: str
    port: Any
    _recipient: object = None
    _path: str = ""

    def __getattr__(self, name: str) -> Any:
        member, path = getattr(self.port, name), self._path + name
        if inspect.iscoroutinefunction(member):
            return _Method(self, path, member)
        if callable(member):
            return _Context(self, path, member)
        return JournalledPort(self._journal, self._by, member, self._recipient or self, f"{path}.")

    def __repr__(self) -> str:
        return type(self.port).__name__

    def call(self, method: str, part: Part, *arguments: Any, **options: Any) -> Call:
        """One that begins now, with its arguments as they are now."""
        kept = tuple([*each] if isinstance(each, list) else each for each in arguments)
        return Call(self._by, self._recipient or self, method, part, kept, options)

    async def have(self, call: Call, outcome: Awaitable[Any]) -> Any:
        """Await it, and note what it comes to."""
        with self._journal.call(call):
            call.result = await outcome
            return call.result

    def opened(self, port: object) -> object:
        """What a context gives, if anything."""
        return port if port is None else JournalledPort(self._journal, self._by, port)


@frozen
class _Method:
    port: JournalledPort
    name: str
    method: Callable[..., Awaitable[Any]]

    async def __call__(self, *arguments: Any, **options: Any) -> Any:
        call = self.port.call(self.name, Part.WHOLE, *arguments, **options)
        return await self.port.have(call, self.method(*arguments, **options))


@frozen
class _Context:
    port: JournalledPort
    name: str
    method: Callable[..., Any]

    @asynccontextmanager
    async def __call__(self, *arguments: Any, **options: Any) -> AsyncGenerator[Any]:
        context: AbstractAsyncContextManager[Any] = self.method(*arguments, **options)
        entrance = self.port.call(self.name, Part.ENTRANCE, *arguments, **options)
        opened = self.port.opened(await self.port.have(entrance, context.__aenter__()))
        entrance.result = opened
        try:
            yield opened
        except BaseException as error:
            exit_ = Call(entrance.by, entrance, self.name, Part.EXIT, (error,), {})
            if not await self.port.have(exit_, context.__aexit__(type(error), error, error.__traceback__)):
                raise
        else:
            exit_ = Call(entrance.by, entrance, self.name, Part.EXIT, (None,), {})
            await self.port.have(exit_, context.__aexit__(None, None, None))


@frozen
class _JournalledSwitch:
    _journal: Journal
    _switch: Switch

    async def __call__(self, step: Step) -> None:
        events = self._journal.events
        if step.phase is Phase.SENT:
            call, number = self._journal.statement(step.operation)
        else:
            call, number = self._journal.current_statement()
            events.append(CarriedOut(call, number))
        try:
            await self._switch(step)
        except BaseException as error:
            call.statements[number].loss = Loss(step.phase, error)
            events.append(Lost(call, number))
            raise
        if step.phase is Phase.SENT:
            events.append(Sent(call, number))
