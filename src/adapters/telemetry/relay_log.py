"""The log lines of the outbox relay."""

from __future__ import annotations

from logging import DEBUG, ERROR, INFO, WARNING
from uuid import UUID

from attrs import define, field
from structlog.typing import FilteringBoundLogger

from ...application.outbox_relay import OUTBOX_RELAY
from ...application.relay_report import MessageFailure, PassReport
from ...application.trouble import Trouble, TroubleKind
from .frames import frames
from .lines import job_logger, meaning


@define(eq=False)
class RelayLog:
    """A `RelayTelemetry` that writes one line per event, each with ``job`` and ``job_run_id``.

    Lines hold ids, topics, numbers and stable codes, never what a message says. What needs a person (a parked message,
    a configuration fault, a defect) is at error level. At debug level are a pass without any work, a further failure
    of the same message, and the lock's coming and going while nothing changes or there is trouble.
    """

    _log: FilteringBoundLogger = field(factory=job_logger)
    _lock_line: str | None = field(default=None, init=False)
    _in_trouble: bool = field(default=False, init=False)

    def lock_acquired(self, run_id: UUID) -> None:
        """``relay started``."""
        self._say_of_lock("relay started", run_id)

    def lock_released(self, run_id: UUID) -> None:
        """``relay stopped``."""
        self._line(DEBUG, "relay stopped", run_id)

    def standing_by(self, run_id: UUID) -> None:
        """``cycle skipped``."""
        self._say_of_lock("cycle skipped", run_id)

    def lock_lost(self, run_id: UUID) -> None:
        """``lock lost``."""
        self._line(WARNING, "lock lost", run_id)

    def message_failed(self, run_id: UUID, failure: MessageFailure) -> None:
        """``message not published``."""
        level = WARNING if failure.attempts == 1 else DEBUG
        self._line(level, "message not published", run_id, **_fields(failure))

    def message_parked(self, run_id: UUID, failure: MessageFailure) -> None:
        """``message parked``."""
        self._line(ERROR, "message parked", run_id, **_fields(failure))

    def pass_finished(self, report: PassReport) -> None:
        """``outbox published``."""
        worked = report.published or report.parked
        self._line(
            INFO if worked else DEBUG,
            "outbox published",
            report.run_id,
            end=report.end.value,
            published=report.published,
            failed=report.failed,
            dead=report.parked,
            held_back=report.held_back,
            duration_ms=round(report.duration.total_seconds() * 1000),
        )

    def pruned(self, run_id: UUID, messages: int) -> None:
        """``outbox pruned``."""
        self._line(INFO, "outbox pruned", run_id, messages=messages)

    def trouble_began(self, run_id: UUID, trouble: Trouble) -> None:
        """``outage began`` with its ``source``, ``configuration fault``, or ``defect`` with where it came from."""
        self._in_trouble = True
        match trouble.kind:
            case TroubleKind.CONFIGURATION:
                self._line(
                    ERROR, "configuration fault", run_id, error_code=trouble.code, reason=str(trouble.error)
                )
            case TroubleKind.DEFECT if trouble.error is not None:
                self._line(
                    ERROR,
                    "defect",
                    run_id,
                    error_code=type(trouble.error).__name__,
                    frames=frames(trouble.error),
                )
            case _:
                self._line(
                    WARNING,
                    "outage began",
                    run_id,
                    source=trouble.kind.value,
                    error_code=trouble.code,
                    **meaning(trouble.code),
                )

    def trouble_ended(self, run_id: UUID, trouble: Trouble) -> None:
        """``outage ended``, also after a configuration fault or a defect."""
        self._in_trouble = False
        self._line(INFO, "outage ended", run_id, source=trouble.kind.value, error_code=trouble.code)

    def _say_of_lock(self, event: str, run_id: UUID) -> None:
        """Two replicas that are in the same trouble pass the lock to and fro: that is no news."""
        news = event != self._lock_line and not self._in_trouble
        if news:
            self._lock_line = event
        self._line(INFO if news else DEBUG, event, run_id)

    def _line(self, level: int, event: str, run_id: UUID, **fields: object) -> None:
        self._log.log(level, event, job=OUTBOX_RELAY, job_run_id=str(run_id), **fields)


def _fields(failure: MessageFailure) -> dict[str, object]:
    return {
        "event_id": str(failure.event_id),
        "topic": failure.topic,
        "attempts": failure.attempts,
        "error_code": failure.error_code,
    }
