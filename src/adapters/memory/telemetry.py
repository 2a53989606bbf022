"""Remembers what the application said about itself."""

from __future__ import annotations

from uuid import UUID

from attrs import define, field

from ...application.cycle_report import AttemptReport, Cycle, CycleReport, Outcome
from ...application.ports.errors import PortError


@define
class MemoryTelemetry:
    """Everything that was told, by kind in the order of telling, and the names and cycles of all calls in order."""

    calls: list[str] = field(factory=list[str])
    cycles: list[Cycle] = field(factory=list[Cycle])
    started: list[Cycle] = field(factory=list[Cycle])
    skipped: list[Cycle] = field(factory=list[Cycle])
    batches: list[int] = field(factory=list[int])
    attempts: list[AttemptReport] = field(factory=list[AttemptReport])
    rollbacks: list[PortError] = field(factory=list[PortError])
    defects: list[BaseException] = field(factory=list[BaseException])
    rows_in_trouble: list[UUID | None] = field(factory=list["UUID | None"])
    configuration_faults: list[PortError] = field(factory=list[PortError])
    locks_lost: list[Cycle] = field(factory=list[Cycle])
    abortions: list[str] = field(factory=list[str])
    completed: list[CycleReport] = field(factory=list[CycleReport])

    def cycle_started(self, cycle: Cycle) -> None:
        """Remember."""
        self._called("cycle_started", cycle)
        self.started.append(cycle)

    def cycle_skipped(self, cycle: Cycle) -> None:
        """Remember."""
        self._called("cycle_skipped", cycle)
        self.skipped.append(cycle)

    def batch_claimed(self, cycle: Cycle, rows: int) -> None:
        """Remember."""
        self._called("batch_claimed", cycle)
        self.batches.append(rows)

    def attempted(self, cycle: Cycle, report: AttemptReport) -> None:
        """Remember."""
        self._called("attempted", cycle)
        self.attempts.append(report)

    def row_rolled_back(self, cycle: Cycle, error: PortError, row: UUID) -> None:
        """Remember."""
        self._called("row_rolled_back", cycle)
        self.rows_in_trouble.append(row)
        self.rollbacks.append(error)

    def defect(self, cycle: Cycle, error: BaseException, row: UUID | None) -> None:
        """Remember."""
        self._called("defect", cycle)
        self.rows_in_trouble.append(row)
        self.defects.append(error)

    def configuration_fault(self, cycle: Cycle, error: PortError) -> None:
        """Remember."""
        self._called("configuration_fault", cycle)
        self.configuration_faults.append(error)

    def lock_lost(self, cycle: Cycle) -> None:
        """Remember."""
        self._called("lock_lost", cycle)
        self.locks_lost.append(cycle)

    def cycle_aborted(self, cycle: Cycle, code: str) -> None:
        """Remember."""
        self._called("cycle_aborted", cycle)
        self.abortions.append(code)

    def cycle_completed(self, report: CycleReport) -> None:
        """Remember."""
        self._called("cycle_completed", report.cycle)
        self.completed.append(report)

    @property
    def outcomes(self) -> list[Outcome]:
        """How the attempts ended, in order."""
        return [report.outcome for report in self.attempts]

    def _called(self, name: str, cycle: Cycle) -> None:
        self.calls.append(name)
        self.cycles.append(cycle)
