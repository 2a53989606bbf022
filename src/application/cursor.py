"""Where a cycle stands in the order of its rows."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from attrs import frozen


@frozen(kw_only=True)
class Cursor:
    """The last row taken, in the order ``(next_attempt_at, id)``; only moves forward inside one cycle."""

    next_attempt_at: datetime
    id: UUID
