"""Several receivers of telemetry as one."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from ...application.cycle_report import AttemptReport, Cycle, CycleReport
from ...application.ports.errors import PortError
from ...application.ports.telemetry import Telemetry

_LOG: Final = logging.getLogger(__name__)


class CombinedTelemetry:
    """A `Telemetry` that tells every receiver in turn; without any it is silent.

    A receiver that raises all the same is reported in the standard log, by the error's class, and the others are
    told nevertheless.
    """

    def __init__(self, *receivers: Telemetry) -> None:
        self._receivers = receivers

    def cycle_started(self, cycle: Cycle) -> None:
        """Pass on."""
        self._tell(lambda receiver: receiver.cycle_started(cycle))

    def cycle_skipped(self, cycle: Cycle) -> None:
        """Pass on."""
        self._tell(lambda receiver: receiver.cycle_skipped(cycle))

    def batch_claimed(self, cycle: Cycle, rows: int) -> None:
        """Pass on."""
        self._tell(lambda receiver: receiver.batch_claimed(cycle, rows))

    def attempted(self, cycle: Cycle, report: AttemptReport) -> None:
        """Pass on."""
        self._tell(lambda receiver: receiver.attempted(cycle, report))

    def row_rolled_back(self, cycle: Cycle, error: PortError) -> None:
        """Pass on."""
        self._tell(lambda receiver: receiver.row_rolled_back(cycle, error))

    def defect(self, cycle: Cycle, error: BaseException) -> None:
        """Pass on."""
        self._tell(lambda receiver: receiver.defect(cycle, error))

    def configuration_fault(self, cycle: Cycle, error: PortError) -> None:
        """Pass on."""
        self._tell(lambda receiver: receiver.configuration_fault(cycle, error))

    def lock_lost(self, cycle: Cycle) -> None:
        """Pass on."""
        self._tell(lambda receiver: receiver.lock_lost(cycle))

    def cycle_aborted(self, cycle: Cycle, code: str) -> None:
        """Pass on."""
        self._tell(lambda receiver: receiver.cycle_aborted(cycle, code))

    def cycle_completed(self, report: CycleReport) -> None:
        """Pass on."""
        self._tell(lambda receiver: receiver.cycle_completed(report))

    def _tell(self, message: Callable[[Telemetry], None]) -> None:
        for receiver in self._receivers:
            try:
                message(receiver)
            except Exception as error:  # noqa: BLE001 - what is done must not depend on who listens
                _LOG.error("%s failed: %s", type(receiver).__name__, type(error).__name__)
