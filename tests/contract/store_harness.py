"""What an adapter's test gives to the contract of a store, whichever store it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Generic, TypeVar

Thing = TypeVar("Thing")
Stored = TypeVar("Stored")


class StoreHarness(ABC, Generic[Thing, Stored]):
    """One database, empty at first, with two stores on it that know nothing of each other, as two processes do.

    A subclass says what kind of stores.
    """

    @abstractmethod
    def writing(self, *things: Thing) -> AbstractAsyncContextManager[None]:
        """Somebody else's open transaction that has written `things`, new or in place of those with their ids.

        Commits at the end of its context, rolls back when that ends with an exception.
        """

    @abstractmethod
    async def stored(self) -> Stored:
        """Read everything committed, by id."""

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
    async def writing_in_vain(self, *things: Thing) -> AsyncGenerator[None]:
        """The same as `writing`, but it rolls back at the end of its context."""
        with suppress(_RolledBack):
            async with self.writing(*things):
                yield
                raise _RolledBack

    async def put(self, *things: Thing) -> None:
        async with self.writing(*things):
            pass


class _RolledBack(Exception):
    """Ends somebody else's transaction."""
