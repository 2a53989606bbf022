"""Storage of deal chat provisions, and everything one attempt writes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Protocol
from uuid import UUID

from attrs import frozen

from ...domain.deal_chat_provision import DealChatProvision, ProvisioningRules
from ...domain.provisioning import ProvisionSnapshot, Verdict
from ..cursor import Cursor
from .outbox import Outbox, OutboxMessage
from .unit_of_work import UnitOfWork


@frozen(kw_only=True)
class ProvisioningBacklog:
    """How many people are waiting for a chat, at one instant.

    ``failed`` counts rows that are ``Failed`` or stuck in ``Provisioning``; ``poison`` those of them whose attempts
    are used up; ``due`` those that the next cycle takes; ``waiting`` those that a cycle takes later.
    ``oldest_created_at`` is the creation time of the oldest row of ``failed``, None without any.
    """

    failed: int
    due: int
    waiting: int
    poison: int
    oldest_created_at: datetime | None


@frozen(kw_only=True)
class Intent:
    """A deal's row, locked, with what an attempt decides on; ``is_new`` when this very call inserted it.

    A new one is not asked for its chat, which it has only by an accident: writing the attempt notices
    (`ChatAlreadyExists`).
    """

    seen: ProvisionSnapshot
    is_new: bool


class ProvisioningUnit(UnitOfWork, Protocol):
    """One transaction over provisions, chats, participants, the chat feed and the outbox."""

    @property
    def outbox(self) -> Outbox:
        """Writes integration events in this transaction."""
        ...

    async def intend(self, provision: DealChatProvision) -> Intent:
        """Insert the provision with its members, unless its deal has one (``ux_dcp_deal``); lock the deal's row.

        Waits for a concurrent transaction that is about to insert the same deal, or has its row locked, and goes on
        with what that one leaves; raises `RowRolledBack` when the wait exceeds the lock time-out. A row that is there
        stays as it is, its members too. Raises `DataRejected` for values that cannot be stored.
        """
        ...

    async def claim(
        self, provision_id: UUID, *, as_of: datetime, rules: ProvisioningRules
    ) -> ProvisionSnapshot | None:
        """Lock the row and read everything an attempt decides on.

        None when the row is gone, locked by another transaction (it is skipped, never waited for) or not due under
        ``rules`` at ``as_of`` any more; the whole rule is checked under the lock.
        """
        ...

    async def lock(self, provision_id: UUID) -> DealChatProvision | None:
        """Lock the row, waiting for its holder, whatever its state; None when there is none.

        Raises `RowRolledBack` when the wait exceeds the lock time-out.
        """
        ...

    async def lock_of_deal(self, deal_id: UUID) -> DealChatProvision | None:
        """As `lock`, for the row of a deal."""
        ...

    async def refresh(self, seen: ProvisionSnapshot) -> ProvisionSnapshot:
        """Read the deal's chat and its participants again, as committed now."""
        ...

    async def settle(self, seen: ProvisionSnapshot, verdict: Verdict) -> bool:
        """Write everything of ``verdict`` but its event; False when ``seen`` is out of date, and then nothing.

        Out of date means that the row's version has moved, or the chat's version, kind or status has; whoever is
        changing the chat is waited for, and whoever wants to change it waits until this transaction has ended.
        Participants are written additively: one that is present by now stays as it is. Raises `ChatAlreadyExists`
        when a concurrent creator won, `DataRejected` when the database refuses the values; either way a
        surrounding `savepoint` undoes the half.
        """
        ...

    async def requeue(self, provision: DealChatProvision) -> bool:
        """Write a requeued schedule, guarded by the version before; False when somebody else won."""
        ...


class ProvisioningStore(Protocol):
    """Deal chat provisions. Contract tests: ``tests.contract.provisioning_store``.

    Every method raises `DatabaseUnavailable`, `RowRolledBack` or `Misconfigured`; none leaks a connection, a lock
    or a transaction when it raises or is cancelled.
    """

    async def candidates(
        self,
        *,
        as_of: datetime,
        after: Cursor | None,
        limit: int,
        rules: ProvisioningRules,
    ) -> Sequence[ProvisionSnapshot]:
        """The next rows due at ``as_of`` behind the cursor, by ``(next_attempt_at, id)``, at most ``limit``.

        Read ahead without locks, with everything an attempt decides on; `settle` notices what changed since.
        """
        ...

    async def settle(
        self,
        seen: ProvisionSnapshot,
        verdict: Verdict,
        message: OutboxMessage | None,
        *,
        as_of: datetime,
        rules: ProvisioningRules,
    ) -> bool:
        """Write a whole attempt, its message included, as one transaction of its own.

        False, with nothing written, when the row is locked by another transaction, not due under ``rules`` at
        ``as_of`` any more, or ``seen`` is out of date. Raises like `ProvisioningUnit.settle`. On
        `DatabaseUnavailable` the outcome may be unknown.
        """
        ...

    def begin(self) -> AbstractAsyncContextManager[ProvisioningUnit]:
        """A new unit of work; leaving it without commit rolls it back."""
        ...

    async def backlog(self, *, as_of: datetime, rules: ProvisioningRules) -> ProvisioningBacklog:
        """Count the backlog as of ``as_of``."""
        ...

    async def poison_ids(self, *, rules: ProvisioningRules, error: str | None = None) -> Collection[UUID]:
        """Ids of the rows whose attempts are used up, optionally only those with exactly this ``last_error``."""
        ...
