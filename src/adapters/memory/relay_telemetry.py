"""Remembers what the outbox relay said about itself."""

from __future__ import annotations

from uuid import UUID

from attrs import define, field

from ...application.relay_report import MessageFailure, PassReport
from ...application.trouble import Trouble, TroubleKind


@define
class MemoryRelayTelemetry:
    """Everything that was told, by kind in the order of telling, and the names and runs of all calls in order."""

    calls: list[str] = field(factory=list[str])
    runs_of_calls: list[UUID] = field(factory=list[UUID])
    runs: list[UUID] = field(factory=list[UUID])
    lock_held: bool = False
    failures: list[MessageFailure] = field(factory=list[MessageFailure])
    parked: list[MessageFailure] = field(factory=list[MessageFailure])
    passes: list[PassReport] = field(factory=list[PassReport])
    prunings: list[int] = field(factory=list[int])
    began: list[Trouble] = field(factory=list[Trouble])
    ended: list[Trouble] = field(factory=list[Trouble])

    def lock_acquired(self, run_id: UUID) -> None:
        """Remember."""
        self._called("lock_acquired", run_id)
        self.runs.append(run_id)
        self.lock_held = True

    def lock_released(self, run_id: UUID) -> None:
        """Remember."""
        self._called("lock_released", run_id)
        self.lock_held = False

    def standing_by(self, run_id: UUID) -> None:
        """Remember."""
        self._called("standing_by", run_id)

    def lock_lost(self, run_id: UUID) -> None:
        """Remember."""
        self._called("lock_lost", run_id)

    def message_failed(self, run_id: UUID, failure: MessageFailure) -> None:
        """Remember."""
        self._called("message_failed", run_id)
        self.failures.append(failure)

    def message_parked(self, run_id: UUID, failure: MessageFailure) -> None:
        """Remember."""
        self._called("message_parked", run_id)
        self.parked.append(failure)

    def pass_finished(self, report: PassReport) -> None:
        """Remember."""
        self._called("pass_finished", report.run_id)
        self.passes.append(report)

    def pruned(self, run_id: UUID, messages: int) -> None:
        """Remember."""
        self._called("pruned", run_id)
        self.prunings.append(messages)

    def trouble_began(self, run_id: UUID, trouble: Trouble) -> None:
        """Remember."""
        self._called("trouble_began", run_id)
        self.began.append(trouble)

    def trouble_ended(self, run_id: UUID, trouble: Trouble) -> None:
        """Remember."""
        self._called("trouble_ended", run_id)
        self.ended.append(trouble)

    @property
    def troubles(self) -> list[TroubleKind]:
        """The kinds of trouble that began, in order."""
        return [trouble.kind for trouble in self.began]

    def _called(self, name: str, run_id: UUID) -> None:
        self.calls.append(name)
        self.runs_of_calls.append(run_id)
