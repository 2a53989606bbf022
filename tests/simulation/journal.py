"""What a history asked of its database: every call, statement by statement, in the one order in which it happened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from attrs import define, field, frozen
from messenger_jobs.adapters.memory.switch import Phase
from messenger_jobs.application.ports.errors import PortError

if TYPE_CHECKING:
    from collections.abc import Iterator


class Part(Enum):
    """What of an object's method is called."""

    WHOLE = "whole"
    ENTRANCE = "entrance"
    """Of its context: a unit of work or a savepoint begins."""
    EXIT = "exit"
    """Of that context: it ends, with what ended it as the only argument."""


@frozen
class Loss:
    """A request that never arrived, or an answer that did not, and what its sender got instead."""

    phase: Phase
    error: BaseException


@define(eq=False)
class Statement:
    """One exchange with the server."""

    operation: str
    loss: Loss | None = field(default=None, init=False)


@define(eq=False)
class Call:
    """One call of a port, and what came of it. ``recipient`` is compared by identity."""

    by: str
    recipient: object
    method: str
    part: Part
    arguments: Sequence[Any]
    options: Mapping[str, Any]
    statements: list[Statement] = field(factory=list[Statement], init=False)
    result: object = field(default=None, init=False)
    error: BaseException | None = field(default=None, init=False)

    def __str__(self) -> str:
        part = "" if self.part is Part.WHOLE else f" ({self.part.value})"
        return f"{self.by}: {self.method}{part}"


@frozen
class Sent:
    """A statement has arrived. Unless what follows is the same call's, it waits for a lock."""

    call: Call
    number: int

    def __str__(self) -> str:
        return f"{self.call}: {self.call.statements[self.number].operation} arrives"


@frozen
class CarriedOut:
    """A statement has done what it does."""

    call: Call
    number: int

    def __str__(self) -> str:
        return f"{self.call}: {self.call.statements[self.number].operation} is carried out"


@frozen
class Lost:
    """A statement, or its answer, is lost; what it did is undone unless it was a commit."""

    call: Call
    number: int

    def __str__(self) -> str:
        statement = self.call.statements[self.number]
        assert statement.loss is not None
        return f"{self.call}: {statement.operation} is lost when {statement.loss.phase.value}: {statement.loss.error!r}"


@frozen
class Ended:
    """A call has its result, or its error."""

    call: Call

    def __str__(self) -> str:
        call = self.call
        return f"{call}: {call.result if call.error is None else repr(call.error)}"


@frozen
class Written:
    """Somebody wrote rows by other software than ours, or could not."""

    table: str
    rows: Sequence[Any]
    error: PortError | None

    def __str__(self) -> str:
        return f"somebody writes {self.table}: {self.rows if self.error is None else repr(self.error)}"


@frozen
class Seen:
    """All committed rows, by table, after something may have been committed."""

    rows: Mapping[str, Sequence[Any]]


Event = Sent | CarriedOut | Lost | Ended | Written | Seen

_CURRENT: Final[ContextVar[Call]] = ContextVar("_CURRENT")


@define(eq=False)
class Journal:
    """Events in their order."""

    events: list[Event] = field(factory=list[Event], init=False)

    @property
    def calls(self) -> int:
        """How many calls have ended."""
        return sum(isinstance(event, Ended) for event in self.events)

    @property
    def calls_met(self) -> bool:
        """Whether somebody found traces of somebody else: waited, came too late, or was refused by the data."""
        return any(map(self._met, self.events, self.events[1:]))

    @staticmethod
    def _met(event: Event, following: Event) -> bool:
        match event:
            case Sent(call, number) if call.statements[number].operation != "rollback":
                return isinstance(following, Seen | Written) or following.call is not call
            case Ended(call) if call.part is Part.WHOLE:
                failed_by_itself = isinstance(call.error, PortError) and not call.statements[-1].loss
                return failed_by_itself or (call.result is False and call.method != "open")
            case Written(error=error):
                return error is not None
            case _:
                return False

    @contextmanager
    def call(self, call: Call) -> Iterator[None]:
        """While it lasts, statements are this call's; an exception is what it came to."""
        token = _CURRENT.set(call)
        try:
            yield
        except BaseException as error:
            call.error = error
            raise
        finally:
            _CURRENT.reset(token)
            self.events.append(Ended(call))

    def statement(self, operation: str) -> tuple[Call, int]:
        """The next statement of the current call begins; its place."""
        call = _CURRENT.get()
        call.statements.append(Statement(operation))
        return call, len(call.statements) - 1

    def current_statement(self) -> tuple[Call, int]:
        """The place of the last statement of the current call."""
        call = _CURRENT.get()
        return call, len(call.statements) - 1
