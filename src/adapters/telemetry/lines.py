"""What the log lines of jobs, relay and consumer have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

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


def meaning(code: str) -> dict[str, object]:
    """The field ``reason``, a sentence for people, for the codes that say little to them.

    By the code, since what an error itself says may quote a row.
    """
    return {"reason": _MEANINGS[code]} if code in _MEANINGS else {}


_MEANINGS: Final[Mapping[str, str]] = {
    "25006": "the database is read-only, as a standby is and a primary that was replaced",
    "53100": "the database's disk is full",
    "53200": "the database has run out of memory",
    "53300": "the database has no connection left to give",
    "54000": "the database takes no more transactions until it is vacuumed",
}
