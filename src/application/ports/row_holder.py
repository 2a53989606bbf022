"""Who has a row locked."""

from __future__ import annotations

from datetime import datetime

from attrs import frozen


@frozen(kw_only=True)
class RowHolder:
    """A transaction that has a row locked; what the database does not tell of it is None.

    ``backend`` is the server's process, ``name`` what its client calls itself, ``since`` the transaction's begin.
    """

    backend: int | None = None
    name: str | None = None
    since: datetime | None = None
