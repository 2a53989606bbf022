"""What the log lines of jobs, relay and consumer have in common."""

from __future__ import annotations

import structlog
from structlog.typing import FilteringBoundLogger

from ...application.cycle_report import AttemptReport


def job_logger() -> FilteringBoundLogger:
    """The logger of them all."""
    logger: FilteringBoundLogger = structlog.get_logger("messenger_jobs")
    return logger


def attempt_fields(report: AttemptReport) -> dict[str, object]:
    """What a line tells of an attempt, its outcome aside: ids, ``attempts`` and ``error_code``, where there are any."""
    fields: dict[str, object] = {name: str(id) for name, id in report.subject.items()}
    if report.attempts is not None:
        fields["attempts"] = report.attempts
    if report.error_code is not None:
        fields["error_code"] = report.error_code
    return fields


def said(reason: str | None) -> dict[str, object]:
    """The field ``reason``, a sentence for people, where there is one."""
    return {} if reason is None else {"reason": reason}
