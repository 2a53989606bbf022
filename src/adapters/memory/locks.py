"""Exclusive locks with waiting in order of arrival, a time-out and deadlock detection."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable
from datetime import timedelta
from typing import Protocol

from attrs import define, field

from ...application.ports.errors import RowRolledBack
from .clock import ManualClock


class LockOwner(Protocol):
    """Whoever holds locks, compared by identity."""

    def granted(self, key: Hashable) -> None:
        """The lock is the owner's from now on, also when the task that waited for it is cancelled right now."""
        ...


@define(eq=False)
class _Waiter:
    owner: LockOwner
    key: Hashable
    outcome: asyncio.Future[None]

    def time_out(self) -> None:
        if not self.outcome.done():
            self.outcome.set_exception(RowRolledBack("55P03", "waited too long for a lock"))


@define(eq=False)
class _Lock:
    holder: LockOwner
    waiters: deque[_Waiter] = field(factory=deque[_Waiter])


class Locks:
    """All locks of one database."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._locks: dict[Hashable, _Lock] = {}
        self._waits: dict[LockOwner, _Waiter] = {}

    @property
    def held(self) -> int:
        """How many locks are held."""
        return len(self._locks)

    @property
    def waiting(self) -> int:
        """How many owners wait for a lock."""
        return sum(not waiter.outcome.done() for waiter in self._waits.values())

    def try_acquire(self, owner: LockOwner, key: Hashable) -> bool:
        """Take the lock if it is free; True when it is the owner's."""
        lock = self._locks.get(key)
        if lock is None:
            self._locks[key] = _Lock(owner)
            owner.granted(key)
            return True
        return lock.holder is owner

    async def acquire(self, owner: LockOwner, key: Hashable, *, timeout: timedelta) -> None:
        """Take the lock, after everybody who came before; with a ``timeout`` of zero at once or not at all.

        Raises `RowRolledBack` with 40P01 when the wait would close a circle, and with 55P03 at the time-out.
        """
        if self.try_acquire(owner, key):
            return
        lock = self._locks[key]
        if self._leads_to(owner, lock.holder):
            raise RowRolledBack("40P01", "deadlock detected")
        if timeout <= timedelta(0):
            raise RowRolledBack("55P03", "could not obtain a lock")
        waiter = _Waiter(owner, key, asyncio.get_running_loop().create_future())
        lock.waiters.append(waiter)
        self._waits[owner] = waiter
        stop_timer = self._clock.call_later(timeout, waiter.time_out)
        try:
            await waiter.outcome
        finally:
            stop_timer()
            del self._waits[owner]

    def release(self, key: Hashable) -> None:
        """Hand the lock to the first who still waits."""
        lock = self._locks[key]
        while lock.waiters:
            waiter = lock.waiters.popleft()
            if not waiter.outcome.done():
                lock.holder = waiter.owner
                waiter.owner.granted(key)
                waiter.outcome.set_result(None)
                return
        del self._locks[key]

    def _leads_to(self, owner: LockOwner, holder: LockOwner) -> bool:
        while (waiter := self._waits.get(holder)) is not None and not waiter.outcome.done():
            holder = self._locks[waiter.key].holder
            if holder is owner:
                return True
        return False
