"""Locks, exclusive or shared, with waiting in order of arrival, a time-out and deadlock detection."""

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
    shared: bool
    outcome: asyncio.Future[None]

    def time_out(self) -> None:
        if not self.outcome.done():
            self.outcome.set_exception(RowRolledBack("55P03", "waited too long for a lock"))


@define(eq=False)
class _Lock:
    """Held by one owner, or shared by several, who are compared by identity."""

    holders: dict[LockOwner, None] = field(factory=dict["LockOwner", None])
    shared: bool = False
    waiters: deque[_Waiter] = field(factory=deque[_Waiter])

    def take(self, owner: LockOwner, *, shared: bool) -> bool:
        """Whether the owner may have it; if so, it does."""
        if shared and owner in self.holders:
            return True
        if self.holders.keys() - {owner} and not (shared and self.shared):
            return False
        self.holders[owner] = None
        self.shared = shared
        return True


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

    def try_acquire(self, owner: LockOwner, key: Hashable, *, shared: bool = False) -> bool:
        """Take the lock if it can be had; True when it is the owner's. Who shares it does not wait for waiters."""
        lock = self._locks.setdefault(key, _Lock())
        known = owner in lock.holders
        if not lock.take(owner, shared=shared):
            return False
        if not known:
            owner.granted(key)
        return True

    async def acquire(
        self, owner: LockOwner, key: Hashable, *, timeout: timedelta, shared: bool = False
    ) -> None:
        """Take the lock, after everybody who came before; with a ``timeout`` of zero at once or not at all.

        Raises `RowRolledBack` with 40P01 when the wait would close a circle, and with 55P03 at the time-out.
        """
        if self.try_acquire(owner, key, shared=shared):
            return
        lock = self._locks[key]
        if self._leads_to(owner, lock):
            raise RowRolledBack("40P01", "deadlock detected")
        if timeout <= timedelta(0):
            raise RowRolledBack("55P03", "could not obtain a lock")
        waiter = _Waiter(owner, key, shared, asyncio.get_running_loop().create_future())
        lock.waiters.append(waiter)
        self._waits[owner] = waiter
        stop_timer = self._clock.call_later(timeout, waiter.time_out)
        try:
            await waiter.outcome
        finally:
            stop_timer()
            del self._waits[owner]

    def release(self, owner: LockOwner, key: Hashable) -> None:
        """Give up the owner's hold; the first who still waits has the lock next, and with it all who share it."""
        lock = self._locks[key]
        del lock.holders[owner]
        while lock.waiters:
            waiter = lock.waiters[0]
            if not waiter.outcome.done():
                known = waiter.owner in lock.holders
                if not lock.take(waiter.owner, shared=waiter.shared):
                    return
                if not known:
                    waiter.owner.granted(key)
                waiter.outcome.set_result(None)
            lock.waiters.popleft()
        if not lock.holders:
            del self._locks[key]

    def _leads_to(self, owner: LockOwner, lock: _Lock) -> bool:
        """Whether somebody who holds the lock waits for the owner, or for somebody who does."""
        for holder in lock.holders.keys() - {owner}:
            waiter = self._waits.get(holder)
            if waiter is None or waiter.outcome.done():
                continue
            awaited = self._locks[waiter.key]
            if owner in awaited.holders or self._leads_to(owner, awaited):
                return True
        return False
