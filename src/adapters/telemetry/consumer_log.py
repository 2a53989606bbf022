"""The log lines of the deal-created consumer."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from logging import DEBUG, ERROR, INFO, WARNING
from typing import Final
from uuid import UUID

from attrs import define, field
from structlog.typing import FilteringBoundLogger

from ...application.cycle_report import AttemptReport, Outcome
from ...application.ports.consumer_telemetry import DeadLetter, MessagePlace
from ...application.provision_created_deal import DEAL_CREATED
from ...application.trouble import Trouble, TroubleKind
from .frames import frames
from .lines import attempt_fields, job_logger, meaning

_HANDLED: Final[Mapping[Outcome, tuple[int, str]]] = {
    Outcome.PROVISIONED: (INFO, "chat provisioned"),
    Outcome.RETRIED: (WARNING, "provision retry"),
    Outcome.FAILED: (ERROR, "provision failed"),
    Outcome.DUPLICATE: (DEBUG, "deal known"),
}


@define(eq=False)
class ConsumerLog:
    """A `ConsumerTelemetry` that writes one line per event, each with ``job`` and ``job_run_id``.

    Lines hold ids, places, numbers and stable codes, never what a message says. What needs a person (a dead letter, a
    poison provision, a configuration fault, a defect) is at error level.
    """

    _log: FilteringBoundLogger = field(factory=job_logger)
    _partitions: list[int] = field(factory=list[int], init=False)

    def partitions_assigned(self, run_id: UUID, partitions: Collection[int]) -> None:
        """``partitions assigned``; at debug level while they stay the same, as at every try of an outage."""
        before, self._partitions = self._partitions, sorted(partitions)
        level = INFO if self._partitions != before else DEBUG
        self._line(level, "partitions assigned", run_id, partitions=self._partitions)

    def handled(self, run_id: UUID, place: MessagePlace, report: AttemptReport) -> None:
        """``chat provisioned``, ``provision retry``, ``provision failed``, or at debug level ``deal known``."""
        level, event = _HANDLED.get(report.outcome, (DEBUG, f"deal {report.outcome.value}"))
        if not self._log.is_enabled_for(level):  # asked for every message
            return
        more = {"poison": True} if report.outcome is Outcome.FAILED else {}
        self._line(level, event, run_id, **_place(place), **attempt_fields(report), **more)

    def dead_lettered(self, run_id: UUID, place: MessagePlace, letter: DeadLetter) -> None:
        """``message dead-lettered``."""
        self._line(
            ERROR,
            "message dead-lettered",
            run_id,
            **_place(place),
            error_code=letter.reason,
            reason=letter.sentence,
            value_lost=letter.value_lost,
        )

    def defect(self, run_id: UUID, place: MessagePlace | None, error: BaseException) -> None:
        """``defect``, with the error's class and where it came from."""
        where = {} if place is None else _place(place)
        self._line(ERROR, "defect", run_id, **where, error_code=type(error).__name__, frames=frames(error))

    def trouble_began(self, run_id: UUID, trouble: Trouble) -> None:
        """``outage began`` with its ``source``, or ``configuration fault``."""
        if trouble.kind is TroubleKind.CONFIGURATION:
            reason = str(trouble.error)
            self._line(ERROR, "configuration fault", run_id, error_code=trouble.code, reason=reason)
        else:
            self._line(
                WARNING,
                "outage began",
                run_id,
                source=trouble.kind.value,
                error_code=trouble.code,
                **meaning(trouble.code),
            )

    def trouble_ended(self, run_id: UUID, trouble: Trouble) -> None:
        """``outage ended``, also after a configuration fault."""
        self._line(INFO, "outage ended", run_id, source=trouble.kind.value, error_code=trouble.code)

    def _line(self, level: int, event: str, run_id: UUID, **fields: object) -> None:
        self._log.log(level, event, job=DEAL_CREATED, job_run_id=str(run_id), **fields)


def _place(place: MessagePlace) -> dict[str, object]:
    return {"partition": place.partition, "offset": place.offset}
