"""Remembers what the outbox relay said about itself."""

from __future__ import annotations

from uuid import UUID

from attrs import define, field

from ...application.relay_report import MessageFailure, PassReport
from ...application.trouble import Trouble, TroubleKind


@define
class MemoryRelayTelemetry:
    """Everything that was told, by kind in the order of telling, and the names of all calls in order."""

    calls: list[str] = field(factory=list[str])
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
        self.calls.append("lock_acquired")
        self.runs.append(run_id)
        self.lock_held = True

    def lock_released(self, run_id: UUID) -> None:
        """Remember."""
        del run_id
        self.calls.append("lock_released")
        self.lock_held = False

    def standing_by(self, run_id: UUID) -> None:
        """Remember."""
        del run_id
        self.calls.append("standing_by")

    def lock_lost(self, run_id: UUID) -> None:
        """Remember."""
        del run_id
        self.calls.append("lock_lost")

    def message_failed(self, run_id: UUID, failure: MessageFailure) -> None:
        """Remember."""
        del run_id
        self.calls.append("message_failed")
        self.failures.append(failure)

    def message_parked(self, run_id: UUID, failure: MessageFailure) -> None:
        """Remember."""
        del run_id
        self.calls.append("message_parked")
        self.parked.append(failure)

    def pass_finished(self, report: PassReport) -> None:
        """Remember."""
        self.calls.append("pass_finished")
        self.passes.append(report)

    def pruned(self, run_id: UUID, messages: int) -> None:
        """Remember."""
        del run_id
        self.calls.append("pruned")
        self.prunings.append(messages)

    def trouble_began(self, run_id: UUID, trouble: Trouble) -> None:
        """Remember."""
        del run_id
        self.calls.append("trouble_began")
        self.began.append(trouble)

    def trouble_ended(self, run_id: UUID, trouble: Trouble) -> None:
        """Remember."""
        del run_id
        self.calls.append("trouble_ended")
        self.ended.append(trouble)

    @property
    def troubles(self) -> list[TroubleKind]:
        """The kinds of trouble that began, in order."""
        return [trouble.kind for trouble in self.began]
