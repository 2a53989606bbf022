"""Several receivers of the relay's telemetry as one."""

from __future__ import annotations

from uuid import UUID

from ...application.ports.relay_telemetry import RelayTelemetry
from ...application.relay_report import MessageFailure, PassReport
from ...application.trouble import Trouble
from .receivers import tell_all


class CombinedRelayTelemetry:
    """A `RelayTelemetry` that tells every receiver in turn; without any it is silent.

    A receiver that raises all the same is reported in the standard log, by the error's class, and the others are
    told nevertheless.
    """

    def __init__(self, *receivers: RelayTelemetry) -> None:
        self._receivers = receivers

    def lock_acquired(self, run_id: UUID) -> None:
        """Pass on."""
        tell_all(self._receivers, lambda receiver: receiver.lock_acquired(run_id))

    def lock_released(self, run_id: UUID) -> None:
        """Pass on."""
        tell_all(self._receivers, lambda receiver: receiver.lock_released(run_id))

    def standing_by(self, run_id: UUID) -> None:
        """Pass on."""
        tell_all(self._receivers, lambda receiver: receiver.standing_by(run_id))

    def lock_lost(self, run_id: UUID) -> None:
        """Pass on."""
        tell_all(self._receivers, lambda receiver: receiver.lock_lost(run_id))

    def message_failed(self, run_id: UUID, failure: MessageFailure) -> None:
        """Pass on."""
        tell_all(self._receivers, lambda receiver: receiver.message_failed(run_id, failure))

    def message_parked(self, run_id: UUID, failure: MessageFailure) -> None:
        """Pass on."""
        tell_all(self._receivers, lambda receiver: receiver.message_parked(run_id, failure))

    def pass_finished(self, report: PassReport) -> None:
        """Pass on."""
        tell_all(self._receivers, lambda receiver: receiver.pass_finished(report))

    def pruned(self, run_id: UUID, messages: int) -> None:
        """Pass on."""
        tell_all(self._receivers, lambda receiver: receiver.pruned(run_id, messages))

    def trouble_began(self, run_id: UUID, trouble: Trouble) -> None:
        """Pass on."""
        tell_all(self._receivers, lambda receiver: receiver.trouble_began(run_id, trouble))

    def trouble_ended(self, run_id: UUID, trouble: Trouble) -> None:
        """Pass on."""
        tell_all(self._receivers, lambda receiver: receiver.trouble_ended(run_id, trouble))
