"""What came of an operator's wish to let automatic retries start over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol
from uuid import UUID

from attrs import frozen


@frozen(kw_only=True)
class RequeueReport:
    """Ids that start over, and the others with the reason why not."""

    requeued: tuple[UUID, ...]
    refused: Mapping[UUID, str]


class Requeue(Protocol):
    """Lets a job's automatic retries start over; with ``dry_run`` it only says what would be."""

    async def poison(self, *, error: str | None = None, dry_run: bool = False) -> RequeueReport:
        """All rows that wait for an operator, optionally only those with exactly this ``last_error``."""
        ...

    async def rows(self, ids: Iterable[UUID], *, dry_run: bool = False) -> RequeueReport:
        """The named rows."""
        ...
