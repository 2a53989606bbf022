"""Explanations as sentences for people."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, assert_never

from ..adapters.postgres.lock_holder import LockHolder
from ..application.explanation import Explanation, NextStep, Reason
from ..application.inspection import ExplainedRow
from ..application.options import JobOptions
from ..application.ports.row_holder import RowHolder
from ..application.ports.row_summary import RowSummary


def sentence(job: str, explained: ExplainedRow, options: JobOptions, cycle: LockHolder | None) -> str:
    """Why the row is taken or not, and when, in one or two sentences."""
    explanation = explained.explanation
    match explanation.reason:
        case Reason.READY | Reason.DONE | Reason.POISON | Reason.QUARANTINED:
            return _never_taken(job, explanation.reason, explained.listed.row, options)
        case Reason.DUE:
            return f"It has been due since {_from(explanation)}. {_due(explanation, options, cycle)}"
        case Reason.LOCKED:
            return (
                f"It has been due since {_from(explanation)}, but another transaction has it locked"
                f"{_holder(explanation.holder)}. A cycle skips it until that ends, and then takes it."
            )
        case _:
            return _taken_later(explanation.reason, explanation, explained.listed.row, options)


def _never_taken(
    job: str,
    reason: Literal[Reason.READY, Reason.DONE, Reason.POISON, Reason.QUARANTINED],
    row: RowSummary,
    options: JobOptions,
) -> str:
    requeue = f"it waits for `messenger-jobs requeue {job} {row.id}`"
    match reason:
        case Reason.READY:
            return "The deal's chat is ready, so nothing is left to do."
        case Reason.DONE:
            return "The recording is finished, so nothing is left to do."
        case Reason.POISON:
            used_up = f"All {options.max_attempts} attempts are used up"
            return f"{used_up}{_last_error(row.last_error)}: {requeue}."
        case Reason.QUARANTINED:
            return f"It is quarantined{_last_error(row.last_error)}: {requeue}."


def _taken_later(
    reason: Literal[
        Reason.FIRST_ATTEMPT_EXPECTED,
        Reason.BACKOFF,
        Reason.SCHEDULED,
        Reason.SESSION_NOT_ENDED,
        Reason.BEFORE_DEADLINE,
    ],
    explanation: Explanation,
    row: RowSummary,
    options: JobOptions,
) -> str:
    since = _from(explanation)
    match reason:
        case Reason.FIRST_ATTEMPT_EXPECTED:
            return (
                "Its deal is in flight: whoever stored it is still expected to finish it. "
                f"If that does not happen, the first cycle from {since} on takes it."
            )
        case Reason.BACKOFF:
            # A recording's attempt is counted before storage is asked, a deal's with its outcome.
            failed = "failed" if explanation.next_step is NextStep.ATTEMPT else "failed, or is under way"
            return (
                f"Attempt {row.attempts} of {options.max_attempts} {failed}{_last_error(row.last_error)}. "
                f"The first cycle from {since} on takes it."
            )
        case Reason.SCHEDULED:
            return f"It was never tried, and the first cycle from {since} on takes it."
        case Reason.SESSION_NOT_ENDED:
            return (
                f"Its session has not ended, so storage is not asked. It is looked at again from {since} on, "
                "and waits on, uncounted, while that is so."
            )
        case Reason.BEFORE_DEADLINE:
            return (
                f"Its session has ended, and the upload has until {_time(explanation.waits_for)} to be "
                f"confirmed. The first cycle from {since} on takes it."
            )


def _due(explanation: Explanation, options: JobOptions, cycle: LockHolder | None) -> str:
    step = _step(explanation)
    if explanation.next_step is NextStep.RECONCILE and explanation.recording_holder is not None:
        step += f", but another transaction has the recording locked{_holder(explanation.recording_holder)}"
    if cycle is not None:
        return f"A cycle is running (backend {cycle.pid}): it, or the one after it, {step}."
    interval = options.polling_interval.total_seconds()
    return f"The next cycle, within {interval:g} seconds where a worker runs, {step}."


def _step(explanation: Explanation) -> str:
    match explanation.next_step:
        case NextStep.ATTEMPT | None:
            return "takes it"
        case NextStep.RECONCILE:
            return "counts an attempt and asks storage for its file"
        case NextStep.REPUBLISH:
            return "announces its recording, which is available and was never announced"
        case NextStep.CLOSE:
            return "closes it, since its recording is finished"
        case NextStep.DEFER if explanation.waits_for is None:
            return "lets it wait on, uncounted, since its session has not ended"
        case NextStep.DEFER:
            return (
                f"lets it wait on, uncounted, until {_time(explanation.waits_for)}: "
                "so long has its upload to be confirmed"
            )
        case NextStep.REFUSE:
            return "counts a failed attempt, since its recording is missing"
        case NextStep.QUARANTINE:
            return "quarantines it, since its last attempt never came to an end"
        case _:
            assert_never(explanation.next_step)


def _from(explanation: Explanation) -> str:
    return _time(explanation.taken_from)


def _time(moment: datetime | None) -> str:
    return "never" if moment is None else moment.isoformat(timespec="milliseconds")


def _last_error(code: str | None) -> str:
    return "" if code is None else f", with the last error {code}"


def _holder(holder: RowHolder | None) -> str:
    if holder is None or holder.backend is None:
        return " (the server does not tell which)"
    name = f", {holder.name}" if holder.name else ""
    since = "" if holder.since is None else f", since {_time(holder.since)}"
    return f" (backend {holder.backend}{name}{since})"
