"""Run locks with a time to live."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Final

from attrs import define, field, frozen

from ...application.ports.clock import Clock
from ...application.ports.errors import PortError
from .switch import Phase, Step, Switch, let_others_run

_MARGIN: Final = 0.1
"""Part of the TTL by which the lease ends on this side before it can end on the server's."""


@define(eq=False)
class _Session:
    ends_at: float
    """By the server's monotonic clock."""


@define(eq=False)
class RunLockServer:
    """Who holds which lock. The holder's session ends when it does nothing for ``ttl``, and the lock with it."""

    clock: Clock
    ttl: timedelta
    _holders: dict[str, _Session] = field(factory=dict[str, _Session], init=False)

    def acquire(self, name: str, session: _Session) -> bool:
        """Take the lock unless somebody holds it."""
        holder = self._holders.get(name)
        if holder is not None and holder.ends_at > self.clock.monotonic():
            return False
        self._holders[name] = session
        self._prolong(session)
        return True

    def confirm(self, name: str, session: _Session) -> bool:
        """Whether this session still holds the lock; if so, its time starts again."""
        held = self._holders.get(name) is session and session.ends_at > self.clock.monotonic()
        if held:
            self._prolong(session)
        return held

    def release(self, name: str, session: _Session) -> None:
        """Free the lock, if it is the session's."""
        if self._holders.get(name) is session:
            del self._holders[name]

    def end_session(self, name: str) -> None:
        """Free the lock without its holder's noticing, as when a server ends the session."""
        self._holders.pop(name, None)

    @property
    def held(self) -> list[str]:
        """Names of the locks that somebody holds."""
        now = self.clock.monotonic()
        return [name for name, holder in self._holders.items() if holder.ends_at > now]

    def _prolong(self, session: _Session) -> None:
        session.ends_at = self.clock.monotonic() + self.ttl.total_seconds()


@frozen
class MemoryRunLocks:
    """See `RunLocks`: one process's access to the server, through its own clock and switch."""

    _server: RunLockServer
    _clock: Clock
    _switch: Switch = field(default=let_others_run, kw_only=True, alias="switch")

    @asynccontextmanager
    async def try_acquire(self, name: str) -> AsyncGenerator[MemoryRunLease | None]:
        """See `RunLocks.try_acquire`."""
        session = _Session(0.0)
        lease = MemoryRunLease(
            self._server, self._clock, self._switch, name, session, self._clock.monotonic()
        )
        try:
            await self._switch(Step("acquire lock", Phase.SENT))
            acquired = self._server.acquire(name, session)
            await self._switch(Step("acquire lock", Phase.ANSWERED))
            try:
                yield lease if acquired else None
            finally:
                with suppress(PortError):
                    await self._switch(Step("release lock", Phase.SENT))
        finally:
            self._server.release(
                name, session
            )  # whatever was asked and not answered: the connection is closed


@define(eq=False)
class MemoryRunLease:
    """See `RunLease`. Any doubt, once, ends it for good."""

    _server: RunLockServer
    _clock: Clock
    _switch: Switch
    _name: str
    _session: _Session
    _held_since: float  # when the last answer was asked for: the server counts from a later moment
    _lost: bool = field(default=False, init=False)

    @property
    def expired(self) -> bool:
        """See `RunLease.expired`."""
        return self._lost or self._unconfirmed_for >= self._ttl * (1 - _MARGIN)

    @property
    def confirmation_due(self) -> bool:
        """See `RunLease.confirmation_due`."""
        return self._unconfirmed_for >= self._ttl / 2

    async def confirm(self) -> bool:
        """See `RunLease.confirm`."""
        if self.expired:
            self._lost = True
            return False
        asked_at = self._clock.monotonic()
        held = False
        try:
            with suppress(PortError):
                await self._switch(Step("confirm lock", Phase.SENT))
                confirmed = self._server.confirm(self._name, self._session)
                await self._switch(Step("confirm lock", Phase.ANSWERED))
                held = confirmed
        finally:  # a cancelled question has no answer either
            if held:
                self._held_since = asked_at
            else:
                self._lost = True
        return held and not self.expired  # an answer that took too long says nothing about now

    @property
    def _ttl(self) -> float:
        return self._server.ttl.total_seconds()

    @property
    def _unconfirmed_for(self) -> float:
        return self._clock.monotonic() - self._held_since
