"""A reliability row as operators list it, whatever it is about."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from attrs import frozen


class RowState(StrEnum):
    """Where a row stands for the job that cares for it: exactly one of these, at any time."""

    DUE = "due"
    """A cycle that starts now takes it."""
    WAITING = "waiting"
    """A later cycle takes it."""
    POISON = "poison"
    """Its attempts are used up, or it is quarantined: it waits for an operator."""
    FINISHED = "finished"
    """No cycle ever takes it again."""


@frozen(kw_only=True)
class RowSummary:
    """``subject`` holds the public ids that logs know the row by; nothing here is personal data."""

    id: UUID
    subject: Mapping[str, UUID | None]
    status: str
    attempts: int
    next_attempt_at: datetime
    last_error: str | None
    created_at: datetime
    updated_at: datetime
