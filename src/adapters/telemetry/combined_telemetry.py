"""Several receivers of telemetry as one."""

from __future__ import annotations

from uuid import UUID

from ...application.cycle_report import AttemptReport, Cycle, CycleReport
from ...application.ports.errors import PortError
from ...application.ports.telemetry import Telemetry
from .receivers import tell_all


class CombinedTelemetry:
    """A `Telemetry` that tells every receiver in turn; without any it is silent.

    A receiver that raises all the same is reported in the standard log, by the error's class, and the others are
    told nevertheless.
    """

    def __init__(self, *receivers: Telemetry) -> None:
        self._receivers = receivers

    def cycle_started(self, cycle: Cycle) -> None:
        """Pass on."""
        tell_all(self._receivers, lambda receiver: receiver.cycle_started(cycle))

    def cycle_skipped(self, cycle: Cycle) -> None:
        """Pass on."""
        tell_all(self._receivers, lambda receiver: receiver.cycle_skipped(cycle))

    def batch_claimed(self, cycle: Cycle, rows: int) -> None:
        """Pass on."""
        tell_all(self._receivers, lambda receiver: receiver.batch_claimed(cycle, rows))

    def attempted(self, cycle: Cycle, report: AttemptReport) -> None:
        """Pass on."""
        tell_all(self._receivers, lambda receiver: receiver.attempted(cycle, report))

    def row_rolled_back(self, cycle: Cycle, error: PortError, row: UUID) -> None:
        """Pass on."""
        tell_all(self._receivers, lambda receiver: receiver.row_rolled_back(cycle, error, row))

    def defect(self, cycle: Cycle, error: BaseException, row: UUID | None) -> None:
        """Pass on."""
        tell_all(self._receivers, lambda receiver: receiver.defect(cycle, error, row))

    def configuration_fault(self, cycle: Cycle, error: PortError) -> None:
        """Pass on."""
        tell_all(self._receivers, lambda receiver: receiver.configuration_fault(cycle, error))

    def lock_lost(self, cycle: Cycle) -> None:
        """Pass on."""
        tell_all(self._receivers, lambda receiver: receiver.lock_lost(cycle))

    def cycle_aborted(self, cycle: Cycle, code: str) -> None:
        """Pass on."""
        tell_all(self._receivers, lambda receiver: receiver.cycle_aborted(cycle, code))

    def cycle_completed(self, report: CycleReport) -> None:
        """Pass on."""
        tell_all(self._receivers, lambda receiver: receiver.cycle_completed(report))
