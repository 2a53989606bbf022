"""A transaction, as the application sees it."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol


class UnitOfWork(Protocol):
    """All or nothing: leaving its context without `commit` rolls back, on errors and cancellation too.

    A unit that joined a host's open transaction commits and rolls back only its own part (a savepoint); the
    host's commit decides.
    """

    async def commit(self) -> None:
        """Make everything done so far durable; nothing more may be done afterwards.

        Raises `DatabaseUnavailable` when the answer never came: the outcome is unknown then.
        """
        ...

    def savepoint(self) -> AbstractAsyncContextManager[None]:
        """A part that can fail by itself: leaving it with an exception undoes just that part."""
        ...
