"""What the application says about itself."""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from ..cycle_report import AttemptReport, Cycle, CycleReport
from .errors import PortError


class Telemetry(Protocol):
    """Receives what happens in a cycle; never raises, never blocks, never changes what is done."""

    def cycle_started(self, cycle: Cycle) -> None:
        """The lock is held and selection begins."""
        ...

    def cycle_skipped(self, cycle: Cycle) -> None:
        """Another runner holds the job's lock: no error, nothing tried."""
        ...

    def batch_claimed(self, cycle: Cycle, rows: int) -> None:
        """A batch of candidates was read."""
        ...

    def attempted(self, cycle: Cycle, report: AttemptReport) -> None:
        """One row was dealt with."""
        ...

    def row_rolled_back(self, cycle: Cycle, error: PortError, row: UUID) -> None:
        """Infrastructure failed under a row; the row is as before, nothing was counted."""
        ...

    def defect(self, cycle: Cycle, error: BaseException, row: UUID | None) -> None:
        """A programming error of ours ended the attempt of ``row``, or the reading of a batch; nothing was counted."""
        ...

    def configuration_fault(self, cycle: Cycle, error: PortError) -> None:
        """Something that only a person can repair ended the cycle."""
        ...

    def lock_lost(self, cycle: Cycle) -> None:
        """The run lock is not known to be held any more; no further row is started."""
        ...

    def cycle_aborted(self, cycle: Cycle, code: str) -> None:
        """The cycle ended early because it could not go on; the next tick tries again."""
        ...

    def cycle_completed(self, report: CycleReport) -> None:
        """The cycle ended, in whatever way `CycleReport.end` says, other than skipped."""
        ...
