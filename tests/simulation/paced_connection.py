"""A real connection whose statements go at the pace of a journal, and get lost where the journal says so."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from contextvars import ContextVar
from typing import ClassVar, Final, TypeVar

import psycopg
from attrs import define, field
from messenger_jobs.adapters.memory.switch import Phase
from messenger_jobs.adapters.postgres.bounded_connection import BoundedConnection
from messenger_jobs.application.ports.errors import PortError
from psycopg.abc import PQGen
from psycopg.pq import TransactionStatus

from tests.simulation.journal import Loss, Statement

Answer = TypeVar("Answer")

FAILING: Final = b"do $$ begin raise exception 'simulated'; end $$"


def _new_future() -> asyncio.Future[None]:
    return asyncio.get_running_loop().create_future()


@define(eq=False)
class Step:
    """One statement of a journal, on its way through a real connection."""

    operation: str
    loss: Loss | None
    may_go: asyncio.Event = field(factory=asyncio.Event, init=False)
    carried_out: asyncio.Future[None] = field(factory=_new_future, init=False)
    is_lost: asyncio.Event = field(factory=asyncio.Event, init=False)

    def loses(self, phase: Phase) -> bool:
        """Whether its request, or its answer, is to be lost."""
        return self.loss is not None and self.loss.phase is phase


@define(eq=False)
class Pace:
    """The statements of one call. Those beyond the journal's, of which an adapter may need more, go at once."""

    steps: list[Step]
    connection: PacedConnection | None = field(default=None, init=False)
    _begun: int = field(default=0, init=False)

    @classmethod
    def of(cls, statements: list[Statement]) -> Pace:
        """Nothing has gone yet."""
        return cls([Step(statement.operation, statement.loss) for statement in statements])

    def next_on(self, connection: PacedConnection) -> Step | None:
        """What goes next; None when it is nothing that the journal knows."""
        self.connection = connection
        self._begun += 1
        return self.steps[self._begun - 1] if self._begun <= len(self.steps) else None


PACE: Final[ContextVar[Pace | None]] = ContextVar("PACE", default=None)
"""Of the call that the current task makes."""


class PacedConnection(BoundedConnection):
    """See the module; without a pace it is as any other."""

    answer_timeout: ClassVar[float] = 120.0

    async def wait(self, gen: PQGen[Answer], interval: float = 0.1, timeout: float | None = None) -> Answer:
        """As in psycopg, when its time has come."""
        pace = PACE.get()
        step = None if pace is None else pace.next_on(self)
        if step is None:
            return await super().wait(gen, interval, timeout)
        await step.may_go.wait()
        if step.loses(Phase.SENT):
            await self._lose(step, gen)
            raise _as_the_driver_has_it(step)
        answer = await super().wait(gen, interval, timeout)
        step.carried_out.set_result(None)
        if step.loses(Phase.ANSWERED):
            await step.is_lost.wait()
            await self._fail()
            raise _as_the_driver_has_it(step)
        return answer

    async def _fail(self) -> None:
        """What the transaction has done since its last savepoint is undone, and unlocked, by the server."""
        if self.pgconn.transaction_status == TransactionStatus.INTRANS:
            with suppress(psycopg.Error):
                await super().wait(self._exec_command(FAILING))

    async def _lose(self, step: Step, gen: PQGen[Answer]) -> None:
        """The driver counts transactions and savepoints, so it must believe that it has sent something."""
        await self._fail()
        if self.pgconn.transaction_status == TransactionStatus.INERROR:
            with suppress(psycopg.Error):
                await super().wait(gen)  # does nothing but end the transaction, if that is what it is
        elif step.operation == "begin":
            await super().wait(gen)  # a transaction that has done nothing is none
        else:
            gen.close()


def _as_the_driver_has_it(step: Step) -> BaseException:
    assert step.loss is not None
    if isinstance(step.loss.error, PortError):
        return psycopg.errors.lookup(step.loss.error.code)("simulated")
    return asyncio.CancelledError()
