"""What an adapter's test gives to the contract of `OutboxQueue`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

from messenger_jobs.adapters.memory.schema import OutboxRow
from messenger_jobs.application.ports.outbox_queue import OutboxQueue


class OutboxQueueHarness(ABC):
    """One database with an empty outbox, and two queues on it that know nothing of each other, as two processes do."""

    queue: OutboxQueue
    other: OutboxQueue

    @abstractmethod
    def writing(self, *rows: OutboxRow) -> AbstractAsyncContextManager[None]:
        """Somebody else's open transaction that has written `rows`, new or in place of those with their ids.

        Commits at the end of its context, rolls back when that ends with an exception.
        """

    @abstractmethod
    async def stored(self) -> list[OutboxRow]:
        """Everything committed, by id."""

    @abstractmethod
    async def until_blocked(self) -> None:
        """Return once a transaction waits for another; fail when that does not happen."""

    @abstractmethod
    async def pass_lock_timeout(self) -> None:
        """Return once waiting for a lock has lasted too long."""

    @abstractmethod
    async def assert_nothing_left(self) -> None:
        """Fail if a transaction, a lock or a connection in use is left behind."""

    @asynccontextmanager
    async def writing_in_vain(self, *rows: OutboxRow) -> AsyncGenerator[None]:
        """The same, but it rolls back at the end of its context."""
        with suppress(_RolledBack):
            async with self.writing(*rows):
                yield
                raise _RolledBack

    async def put(self, *rows: OutboxRow) -> None:
        async with self.writing(*rows):
            pass

    async def row(self, id: int) -> OutboxRow:
        return next(row for row in await self.stored() if row.id == id)


class _RolledBack(Exception):
    """Ends somebody else's transaction."""
