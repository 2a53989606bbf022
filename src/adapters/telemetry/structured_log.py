"""The log lines of a cycle, spelled as dashboards and runbooks expect them."""

from __future__ import annotations

from collections.abc import Mapping
from logging import DEBUG, ERROR, INFO, WARNING
from typing import Final
from uuid import UUID

from attrs import define, field
from structlog.typing import FilteringBoundLogger

from ...application.chat_provision_retry import CHAT_PROVISION_RETRY
from ...application.cycle_report import AttemptReport, Cycle, CycleEnd, CycleReport, Outcome
from ...application.ports.errors import DatabaseUnavailable, PortError
from ...application.recording_finalize_retry import RECORDING_FINALIZE_RETRY
from ...domain.call_recording import FailureReason
from .frames import frames
from .lines import attempt_fields, job_logger, meaning

_ATTEMPTS: Final[Mapping[str, Mapping[Outcome, tuple[int, str]]]] = {
    CHAT_PROVISION_RETRY: {
        Outcome.PROVISIONED: (INFO, "chat provisioned"),
        Outcome.RETRIED: (WARNING, "provision retry"),
        Outcome.FAILED: (ERROR, "provision failed"),
    },
    RECORDING_FINALIZE_RETRY: {
        Outcome.RECONCILED: (INFO, "recording reconciled"),
        Outcome.REPUBLISHED: (INFO, "recording republished"),
        Outcome.RETRIED: (WARNING, "recording retry"),
        Outcome.FAILED: (ERROR, "recording failed"),
        Outcome.DEFERRED: (DEBUG, "recording deferred"),
        Outcome.QUARANTINED: (ERROR, "recording quarantined"),
    },
}
_ALWAYS_COUNTED: Final[Mapping[str, tuple[Outcome, ...]]] = {
    CHAT_PROVISION_RETRY: (Outcome.PROVISIONED, Outcome.RETRIED, Outcome.FAILED),
    RECORDING_FINALIZE_RETRY: (
        Outcome.RECONCILED,
        Outcome.REPUBLISHED,
        Outcome.FAILED,
        Outcome.QUARANTINED,
    ),
}
_MORE_FIELDS: Final[Mapping[tuple[str, Outcome], Mapping[str, object]]] = {
    (CHAT_PROVISION_RETRY, Outcome.FAILED): {"poison": True},
    (RECORDING_FINALIZE_RETRY, Outcome.FAILED): {"failure_reason": FailureReason.TIMEOUT.value},
    (RECORDING_FINALIZE_RETRY, Outcome.QUARANTINED): {"poison": True},
}


@define(eq=False)
class StructuredLog:
    """A `Telemetry` that writes one line per event, each with ``job`` and ``job_run_id``.

    Lines hold ids, numbers and stable codes, never what a row or an exception says. What needs a person (poison, a
    configuration fault, a defect) is at error level. An outage that goes on from tick to tick is said once, and
    once more when it is over; in between its lines are at debug level.
    """

    _log: FilteringBoundLogger = field(factory=job_logger)
    _outages: dict[str, str] = field(factory=dict[str, str], init=False)

    def cycle_started(self, cycle: Cycle) -> None:
        """``cycle started``."""
        self._line(INFO, "cycle started", cycle, as_of=cycle.as_of.isoformat())

    def cycle_skipped(self, cycle: Cycle) -> None:
        """``cycle skipped``; the lock's server answered, so an outage is over."""
        self._recovered(cycle)
        self._line(INFO, "cycle skipped", cycle)

    def batch_claimed(self, cycle: Cycle, rows: int) -> None:
        """``batch claimed``."""
        self._line(INFO, "batch claimed", cycle, rows=rows)

    def attempted(self, cycle: Cycle, report: AttemptReport) -> None:
        """The job's line for the outcome, as ``chat provisioned``; what needs no line is at debug level."""
        level, event = _ATTEMPTS.get(cycle.job, {}).get(
            report.outcome, (DEBUG, f"row {report.outcome.value}")
        )
        if not self._log.is_enabled_for(level):  # asked for every row, and fields cost more than the question
            return
        more = _MORE_FIELDS.get((cycle.job, report.outcome), {})
        self._line(level, event, cycle, **attempt_fields(report), **more)

    def row_rolled_back(self, cycle: Cycle, error: PortError, row: UUID) -> None:
        """``row rolled back``."""
        known = isinstance(error, DatabaseUnavailable) and cycle.job in self._outages
        level = DEBUG if known else WARNING
        self._line(level, "row rolled back", cycle, row=str(row), error_code=error.code)

    def defect(self, cycle: Cycle, error: BaseException, row: UUID | None) -> None:
        """``defect``, with the error's class, where it came from, and the row that it was about."""
        about = {} if row is None else {"row": str(row)}
        self._line(ERROR, "defect", cycle, **about, error_code=type(error).__name__, frames=frames(error))

    def configuration_fault(self, cycle: Cycle, error: PortError) -> None:
        """``configuration fault``."""
        level = DEBUG if self._outages.get(cycle.job) == error.code else ERROR
        self._line(level, "configuration fault", cycle, error_code=error.code, reason=str(error))

    def lock_lost(self, cycle: Cycle) -> None:
        """``lock lost``."""
        self._line(WARNING, "lock lost", cycle)

    def cycle_aborted(self, cycle: Cycle, code: str) -> None:
        """``cycle aborted``, with a sentence where the code alone says little."""
        known = self._outages.get(cycle.job) == code
        self._outages[cycle.job] = code
        self._line(DEBUG if known else WARNING, "cycle aborted", cycle, error_code=code, **meaning(code))

    def cycle_completed(self, report: CycleReport) -> None:
        """``cycle completed``, whatever ended it: ``end`` says what."""
        aborted = report.end is CycleEnd.ABORTED
        if not aborted:
            self._recovered(report.cycle)
        nothing_to_add = aborted and not report.counts  # to the line "cycle aborted"
        counts = {
            outcome.value: report.counts.get(outcome, 0)
            for outcome in _ALWAYS_COUNTED.get(report.cycle.job, ())
        }
        counts |= {outcome.value: count for outcome, count in report.counts.items()}
        self._line(
            DEBUG if nothing_to_add else INFO,
            "cycle completed",
            report.cycle,
            end=report.end.value,
            **counts,
            duration_ms=round(report.duration.total_seconds() * 1000),
        )

    def _recovered(self, cycle: Cycle) -> None:
        code = self._outages.pop(cycle.job, None)
        if code is not None:
            self._line(INFO, "cycle recovered", cycle, error_code=code)

    def _line(self, level: int, event: str, cycle: Cycle, **fields: object) -> None:
        self._log.log(level, event, job=cycle.job, job_run_id=str(cycle.run_id), **fields)
