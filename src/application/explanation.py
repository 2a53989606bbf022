"""Why a row is, or is not, taken by a cycle that starts now, and when it is."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from attrs import frozen

from .ports.row_holder import RowHolder


class Reason(StrEnum):
    """The one that decides, of all there may be."""

    DUE = "due"
    """It is taken."""
    LOCKED = "locked"
    """It is due, and would be taken if no other transaction had it."""
    FIRST_ATTEMPT_EXPECTED = "first_attempt_expected"
    """Its deal is in flight: whoever stored it is still expected to finish it."""
    BACKOFF = "backoff"
    """Its last attempt failed, or is under way at this moment, and the next one has to wait."""
    SESSION_NOT_ENDED = "session_not_ended"
    """What it records goes on, or has not begun."""
    BEFORE_DEADLINE = "before_deadline"
    """The session has ended, and the upload still has time to be confirmed."""
    SCHEDULED = "scheduled"
    """It was never tried, and its time has not come."""
    POISON = "poison"
    """Its attempts are used up: it waits for an operator."""
    QUARANTINED = "quarantined"
    """It waits for an operator."""
    READY = "ready"
    """The deal's chat is ready, for good."""
    DONE = "done"
    """The recording is finished, for good."""


class NextStep(StrEnum):
    """What the cycle that takes the row begins with, if nobody touches the row before."""

    ATTEMPT = "attempt"
    """Provision the deal's chat."""
    RECONCILE = "reconcile"
    """Count an attempt and ask storage for the recording's file."""
    REPUBLISH = "republish"
    """Announce the recording, which is available and was never announced."""
    CLOSE = "close"
    """Close the row: somebody else finished its recording."""
    DEFER = "defer"
    """Let it wait on, uncounted: it is too early to ask storage."""
    REFUSE = "refuse"
    """Count an attempt as failed, without asking anybody: its recording is missing."""
    QUARANTINE = "quarantine"
    """Leave it to an operator: its last attempt was counted and never came to an end."""


@frozen(kw_only=True)
class Explanation:
    """``taken_from`` is the earliest start of a cycle that takes the row as it is; None when no cycle will.

    ``next_step`` is None then, too. ``waits_for`` is the end of the time that an upload has, where it is what keeps
    storage from being asked. ``holder`` has the row locked at this moment, whatever the reason, and
    ``recording_holder`` the recording that it is about.
    """

    reason: Reason
    taken_from: datetime | None
    next_step: NextStep | None
    holder: RowHolder | None = None
    recording_holder: RowHolder | None = None
    waits_for: datetime | None = None

    @property
    def taken_now(self) -> bool:
        """Whether a cycle that starts now takes the row."""
        return self.reason is Reason.DUE
