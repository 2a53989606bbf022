"""What keeps the relay or the consumer from going on."""

from __future__ import annotations

from enum import StrEnum

from attrs import frozen


class TroubleKind(StrEnum):
    """Why something that runs on its own cannot go on for now."""

    DATABASE = "database"
    """The database, or the run lock's server, is out of reach or undid a transaction."""
    BROKER = "broker"
    """The broker as a whole is out of reach."""
    CONFIGURATION = "configuration"
    """Something must be set up by a person."""
    DEFECT = "defect"
    """A programming error of ours."""


@frozen(kw_only=True)
class Trouble:
    """What ended a pass or a membership, or kept it from starting; ``error`` is None when only receipts told of it."""

    kind: TroubleKind
    code: str
    error: BaseException | None = None
