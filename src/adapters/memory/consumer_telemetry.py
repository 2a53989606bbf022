"""Remembers what a consumer said about itself."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from attrs import define, field

from ...application.cycle_report import AttemptReport, Outcome
from ...application.ports.consumer_telemetry import DeadLetter, MessagePlace
from ...application.trouble import Trouble


@define
class MemoryConsumerTelemetry:
    """Everything that was told, by kind in the order of telling."""

    assignments: list[frozenset[int]] = field(factory=list[frozenset[int]])
    reports: list[tuple[MessagePlace, AttemptReport]] = field(
        factory=list[tuple[MessagePlace, AttemptReport]]
    )
    dead_letters: list[tuple[MessagePlace, DeadLetter]] = field(factory=list[tuple[MessagePlace, DeadLetter]])
    defects: list[tuple[MessagePlace | None, BaseException]] = field(
        factory=list[tuple[MessagePlace | None, BaseException]]
    )
    troubles: list[tuple[str, Trouble]] = field(factory=list[tuple[str, Trouble]])

    def partitions_assigned(self, run_id: UUID, partitions: Collection[int]) -> None:
        """Remember."""
        del run_id
        self.assignments.append(frozenset(partitions))

    def handled(self, run_id: UUID, place: MessagePlace, report: AttemptReport) -> None:
        """Remember."""
        del run_id
        self.reports.append((place, report))

    def dead_lettered(self, run_id: UUID, place: MessagePlace, letter: DeadLetter) -> None:
        """Remember."""
        del run_id
        self.dead_letters.append((place, letter))

    def defect(self, run_id: UUID, place: MessagePlace | None, error: BaseException) -> None:
        """Remember."""
        del run_id
        self.defects.append((place, error))

    def trouble_began(self, run_id: UUID, trouble: Trouble) -> None:
        """Remember."""
        del run_id
        self.troubles.append(("began", trouble))

    def trouble_ended(self, run_id: UUID, trouble: Trouble) -> None:
        """Remember."""
        del run_id
        self.troubles.append(("ended", trouble))

    @property
    def outcomes(self) -> list[Outcome]:
        """How the handled messages ended, in order."""
        return [report.outcome for _, report in self.reports]

    @property
    def trouble_changes(self) -> list[tuple[str, str]]:
        """What began and ended, by kind."""
        return [(change, trouble.kind.value) for change, trouble in self.troubles]
