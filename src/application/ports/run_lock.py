"""One runner per job name over all processes."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol


class RunLease(Protocol):
    """A run lock while it is held."""

    @property
    def expired(self) -> bool:
        """True once the lock may have been lost without anybody saying so.

        A local monotonic deadline, the TTL minus a margin after the last confirmation: it holds even when the
        lock's server does not answer.
        """
        ...

    @property
    def confirmation_due(self) -> bool:
        """True when half of the TTL has passed since the last confirmation."""
        ...

    async def confirm(self) -> bool:
        """Ask the lock's server whether this very session still holds the lock, which also extends it by the TTL.

        *No*, an error, a time-out and an answer that came after the lease expired all answer False; once False, always
        False. Raises nothing but cancellation.
        """
        ...


class RunLocks(Protocol):
    """Gives out run locks by job name. Contract tests: ``tests.contract.run_locks``."""

    def try_acquire(self, name: str) -> AbstractAsyncContextManager[RunLease | None]:
        """Acquire without waiting; the context's value is None when another runner holds the lock.

        The lock ends with the context, whatever ended it (cancellation too), with the process or the connection,
        and at the TTL on the server's side when the holder neither confirms nor releases. Raises
        `DatabaseUnavailable` or `Misconfigured` when the lock's server cannot be asked; nothing is left held then.
        """
        ...
