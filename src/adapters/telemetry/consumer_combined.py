"""Several receivers of a consumer's telemetry as one."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from ...application.cycle_report import AttemptReport
from ...application.ports.consumer_telemetry import ConsumerTelemetry, DeadLetter, MessagePlace
from ...application.trouble import Trouble
from .receivers import tell_all


class CombinedConsumerTelemetry:
    """A `ConsumerTelemetry` that tells every receiver in turn; without any it is silent.

    A receiver that raises all the same is reported in the standard log, by the error's class, and the others are
    told nevertheless.
    """

    def __init__(self, *receivers: ConsumerTelemetry) -> None:
        self._receivers = receivers

    def partitions_assigned(self, run_id: UUID, partitions: Collection[int]) -> None:
        """Pass on."""
        tell_all(self._receivers, lambda receiver: receiver.partitions_assigned(run_id, partitions))

    def handled(self, run_id: UUID, place: MessagePlace, report: AttemptReport) -> None:
        """Pass on."""
        tell_all(self._receivers, lambda receiver: receiver.handled(run_id, place, report))

    def dead_lettered(self, run_id: UUID, place: MessagePlace, letter: DeadLetter) -> None:
        """Pass on."""
        tell_all(self._receivers, lambda receiver: receiver.dead_lettered(run_id, place, letter))

    def defect(self, run_id: UUID, place: MessagePlace | None, error: BaseException) -> None:
        """Pass on."""
        tell_all(self._receivers, lambda receiver: receiver.defect(run_id, place, error))

    def trouble_began(self, run_id: UUID, trouble: Trouble) -> None:
        """Pass on."""
        tell_all(self._receivers, lambda receiver: receiver.trouble_began(run_id, trouble))

    def trouble_ended(self, run_id: UUID, trouble: Trouble) -> None:
        """Pass on."""
        tell_all(self._receivers, lambda receiver: receiver.trouble_ended(run_id, trouble))
