"""What the outbox relay says about itself."""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from ..relay_report import MessageFailure, PassReport
from ..trouble import Trouble


class RelayTelemetry(Protocol):
    """Receives what happens in the relay; never raises, never blocks, never changes what is done.

    ``run_id`` is new with every attempt to get the run lock, and stays while it is held.
    """

    def lock_acquired(self, run_id: UUID) -> None:
        """The run lock is held: passes begin."""
        ...

    def lock_released(self, run_id: UUID) -> None:
        """The run lock that was held is given up, or was lost."""
        ...

    def standing_by(self, run_id: UUID) -> None:
        """Another relay holds the run lock; told at every attempt to get it."""
        ...

    def lock_lost(self, run_id: UUID) -> None:
        """The run lock is not known to be held any more; no further message is sent."""
        ...

    def message_failed(self, run_id: UUID, failure: MessageFailure) -> None:
        """A message failed by itself; it waits, and those of its key behind it."""
        ...

    def message_parked(self, run_id: UUID, failure: MessageFailure) -> None:
        """A message can never be sent and waits for an operator: an alert."""
        ...

    def pass_finished(self, report: PassReport) -> None:
        """A pass ended, in whatever way."""
        ...

    def pruned(self, run_id: UUID, messages: int) -> None:
        """Messages published long enough ago were deleted; at least one."""
        ...

    def trouble_began(self, run_id: UUID, trouble: Trouble) -> None:
        """The relay cannot go on for now; told when the kind of its trouble changes, however long it lasts."""
        ...

    def trouble_ended(self, run_id: UUID, trouble: Trouble) -> None:
        """The first pass that ended well after ``trouble``, which was the latest told of."""
        ...
