"""What the relay's passes come to."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from attrs import frozen

from .cycle_report import CycleEnd
from .trouble import Trouble


@frozen(kw_only=True)
class PassReport:
    """What one pass over the outbox came to.

    ``held_back`` messages wait behind one of their key that failed. ``more`` says that the pass ended at its limit and
    another one has work at once. ``end`` is never *skipped* and never *out of time*.
    """

    run_id: UUID
    started_at: datetime
    duration: timedelta
    end: CycleEnd
    published: int = 0
    failed: int = 0
    parked: int = 0
    held_back: int = 0
    more: bool = False
    trouble: Trouble | None = None


@frozen(kw_only=True)
class RelayReport:
    """What a run that drains the outbox came to: sums over its passes, ``held_back`` as the last one left it.

    ``end`` is *skipped* when another relay holds the lock.
    """

    run_id: UUID
    started_at: datetime
    duration: timedelta
    end: CycleEnd
    published: int = 0
    failed: int = 0
    parked: int = 0
    held_back: int = 0
    error_code: str | None = None


@frozen(kw_only=True)
class MessageFailure:
    """A message that was not published: by now it is parked, or waits for its next attempt.

    ``attempts`` counts this one; ``error_code`` is what is stored as ``last_error``.
    """

    event_id: UUID
    topic: str
    error_code: str
    attempts: int
