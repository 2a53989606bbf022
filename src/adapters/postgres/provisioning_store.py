"""Deal chat provisions in PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from functools import lru_cache
from typing import Final
from uuid import UUID

from attrs import field, frozen

from ...application.cursor import Cursor
from ...application.ports.outbox import OutboxMessage
from ...application.ports.provisioning import ProvisioningBacklog
from ...domain.deal_chat_provision import ProvisioningRules
from ...domain.provisioning import ProvisionSnapshot, Verdict
from . import provision_statements as sql
from .connections import Connections
from .due_rows import BROKEN, Place, filled_batch, id_of, place_in, tell_unreadable
from .fetching import Row, UnreadableRow, changes_a_row, rows_on, rows_one_by_one
from .provision_rows import due_parameters, settle_parameters, snapshot_from
from .provisioning_unit import PostgresProvisioningUnit
from .unit_of_work import OutboxOn

_SCHEDULE: Final = 8
"""The column ``next_attempt_at`` of ``PROVISION_COLUMNS``."""


@frozen
class PostgresProvisioningStore:
    """See `ProvisioningStore`. A batch costs two statements, an attempt one, which is its transaction.

    ``outbox`` is a host's own outbox, which is written in the same transactions; an attempt that tells something then
    costs several statements.
    """

    _connections: Connections
    _own_outbox: OutboxOn | None = field(default=None, kw_only=True, alias="outbox")

    async def candidates(
        self, *, as_of: datetime, after: Cursor | None, limit: int, rules: ProvisioningRules
    ) -> Sequence[ProvisionSnapshot]:
        """See `ProvisioningStore.candidates`. A row that is deleted meanwhile is left out."""

        async def read(place: Place, wanted: int) -> Sequence[tuple[Place, ProvisionSnapshot | None]]:
            return await self._read(place, wanted, due_parameters(as_of, rules), rules.max_attempts)

        return await filled_batch(read, after=after, limit=limit)

    async def settle(
        self,
        seen: ProvisionSnapshot,
        verdict: Verdict,
        message: OutboxMessage | None,
        *,
        as_of: datetime,
        rules: ProvisioningRules,
    ) -> bool:
        """See `ProvisioningStore.settle`."""
        if message is not None and self._own_outbox is not None:
            return await self._settle_and_tell(seen, verdict, message, as_of=as_of, rules=rules)
        parameters = {**settle_parameters(seen, verdict, message), **due_parameters(as_of, rules)}
        return await changes_a_row(self._connections, sql.SETTLE_IF_DUE, parameters)

    @asynccontextmanager
    async def begin(self) -> AsyncGenerator[PostgresProvisioningUnit]:
        """See `ProvisioningStore.begin`."""
        async with self._connections.transaction() as transaction:
            yield PostgresProvisioningUnit(transaction, self._own_outbox)

    async def backlog(self, *, as_of: datetime, rules: ProvisioningRules) -> ProvisioningBacklog:
        """See `ProvisioningStore.backlog`."""
        async with self._connections.statement() as connection:
            ((failed, due, waiting, poison, oldest),) = await rows_on(
                connection, sql.BACKLOG, due_parameters(as_of, rules)
            )
        return ProvisioningBacklog(
            failed=failed, due=due, waiting=waiting, poison=poison, oldest_created_at=oldest
        )

    async def poison_ids(self, *, rules: ProvisioningRules, error: str | None = None) -> Collection[UUID]:
        """See `ProvisioningStore.poison_ids`. Oldest first."""
        async with self._connections.statement() as connection:
            rows = await rows_on(
                connection, sql.POISON_IDS, {"max_attempts": rules.max_attempts, "error": error}
            )
        return [id_ for (id_,) in rows]

    async def _read(
        self, place: Place, wanted: int, due: Mapping[str, object], max_attempts: int
    ) -> Sequence[tuple[Place, ProvisionSnapshot | None]]:
        parameters = {"after_at": place.next_attempt_at, "after_id": place.id, "limit": wanted, **due}
        async with self._connections.statement() as connection:
            # Never prepared: the plan is made for the very limit and time, which costs less than a bad one.
            rows = await rows_one_by_one(connection, _candidates(max_attempts), parameters, prepare=False)
            ids = [row[0] for row in rows if not isinstance(row, UnreadableRow)]
            found = await rows_one_by_one(connection, sql.CONTEXT, {"ids": ids}, prepare=False) if ids else []
        contexts = {id_of(context): context for context in found}
        return [(place_in(row, _SCHEDULE), _snapshot(row, contexts)) for row in rows]

    async def _settle_and_tell(
        self,
        seen: ProvisionSnapshot,
        verdict: Verdict,
        message: OutboxMessage,
        *,
        as_of: datetime,
        rules: ProvisioningRules,
    ) -> bool:
        """What one statement does with our own outbox; the claim skips locked rows and rows not due, as it does."""
        async with self.begin() as work:
            claimed = await work.claim(seen.provision.id, as_of=as_of, rules=rules)
            if claimed is None or not await work.settle(seen, verdict):
                return False
            await work.outbox.add(message)
            await work.commit()
        return True


def _snapshot(
    row: Row | UnreadableRow, contexts: Mapping[UUID, Row | UnreadableRow]
) -> ProvisionSnapshot | None:
    """None for a row that was deleted meanwhile, and for one that is broken, which is told."""
    if not isinstance(row, UnreadableRow):
        context = contexts.get(row[0])
        if context is None:
            return None
        if not isinstance(context, UnreadableRow):
            with suppress(*BROKEN):
                return snapshot_from(row, context)
    tell_unreadable("deal_chat_provisions", row)
    return None


@lru_cache(maxsize=8)
def _candidates(max_attempts: int) -> bytes:
    return sql.candidates(max_attempts).as_bytes(None)
