"""What commands show, as plain facts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Final

from ..adapters.postgres.lock_holder import LockHolder
from ..application.chat_provision_retry import CHAT_PROVISION_RETRY
from ..application.cycle_report import CycleEnd, CycleReport, Outcome
from ..application.outbox_relay import OUTBOX_RELAY
from ..application.recording_finalize_retry import RECORDING_FINALIZE_RETRY
from ..application.relay_report import RelayReport
from .bootstrap import Application
from .neighbour import last_successes
from .output import Fact, Facts

CYCLE_ENDS: Final[Mapping[CycleEnd, str]] = {
    CycleEnd.COMPLETED: "no due row is left",
    CycleEnd.OUT_OF_TIME: "the time is over, the rest is for the next cycle",
    CycleEnd.SKIPPED: "skipped, another runner holds the lock",
    CycleEnd.STOPPED: "stopped on request",
    CycleEnd.LOCK_LOST: "ended early, the lock is no longer known to be held",
    CycleEnd.ABORTED: "ended early, it could not go on",
}

_ALWAYS_COUNTED: Final[Mapping[str, tuple[Outcome, ...]]] = {
    CHAT_PROVISION_RETRY: (Outcome.PROVISIONED, Outcome.RETRIED, Outcome.FAILED),
    RECORDING_FINALIZE_RETRY: (
        *(Outcome.RECONCILED, Outcome.REPUBLISHED, Outcome.CLOSED, Outcome.DEFERRED),
        *(Outcome.RETRIED, Outcome.RELEASED, Outcome.FAILED, Outcome.QUARANTINED),
    ),
}
_OF_EVERY_JOB: Final = (Outcome.SKIPPED, Outcome.ROLLED_BACK)


def cycle_facts(report: CycleReport, *, dry_run: bool) -> Facts:
    """What one cycle came to."""
    always = (*_ALWAYS_COUNTED.get(report.cycle.job, ()), *_OF_EVERY_JOB)
    counts = dict.fromkeys(always, 0) | dict(report.counts)
    return {
        "job": report.cycle.job,
        "job_run_id": str(report.cycle.run_id),
        "dry_run": dry_run,
        "as_of": report.cycle.as_of.isoformat(),
        "end": report.end.value,
        **{outcome.value: count for outcome, count in counts.items()},
        "duration_ms": round(report.duration.total_seconds() * 1000),
        "error_code": report.error_code,
    }


def relay_facts(report: RelayReport) -> Facts:
    """What one run of the relay came to."""
    return {
        "job": OUTBOX_RELAY,
        "job_run_id": str(report.run_id),
        "dry_run": False,
        "end": report.end.value,
        "published": report.published,
        "failed": report.failed,
        "parked": report.parked,
        "held_back": report.held_back,
        "duration_ms": round(report.duration.total_seconds() * 1000),
        "error_code": report.error_code,
    }


async def status_facts(application: Application) -> dict[str, Facts]:
    """The state of every job by its name."""
    port = application.settings.http_port
    successes: Mapping[str, datetime] = await asyncio.to_thread(last_successes, port) if port else {}
    facts: dict[str, Facts] = {}
    for job in (*application.jobs, OUTBOX_RELAY):
        facts[job] = {
            "job": job,
            **(await _BACKLOG_FACTS[job](application)),
            "last_success": _moment(successes.get(job)),
            **_holder_facts(await application.database.lock_holder(job)),
        }
    return facts


async def _provisioning_facts(application: Application) -> Facts:
    backlog = await application.backlog()
    return {
        "failed": backlog.failed,
        "due": backlog.due,
        "waiting": backlog.waiting,
        "poison": backlog.poison,
        **_age_facts(application, backlog.oldest_created_at),
    }


async def _outbox_facts(application: Application) -> Facts:
    backlog = await application.outbox_backlog()
    return {
        "unpublished": backlog.unpublished,
        "dead": backlog.dead,
        **_age_facts(application, backlog.oldest_created_at),
    }


async def _finalization_facts(application: Application) -> Facts:
    backlog = await application.recordings_backlog()
    if backlog is None:
        return {}
    return {
        "pending": backlog.pending,
        "due": backlog.due,
        "waiting": backlog.pending - backlog.due,
        "quarantined": backlog.quarantined,
        **_age_facts(application, backlog.oldest_created_at),
    }


_BACKLOG_FACTS: Final[Mapping[str, Callable[[Application], Awaitable[Facts]]]] = {
    CHAT_PROVISION_RETRY: _provisioning_facts,
    RECORDING_FINALIZE_RETRY: _finalization_facts,
    OUTBOX_RELAY: _outbox_facts,
}


def _age_facts(application: Application, oldest: datetime | None) -> dict[str, Fact]:
    age = None if oldest is None else application.clock.now() - oldest
    return {"oldest_age_seconds": 0 if age is None else round(age.total_seconds())}


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _holder_facts(holder: LockHolder | None) -> dict[str, Fact]:
    return {
        "lock_holder_pid": None if holder is None else holder.pid,
        "lock_holder_address": None if holder is None else holder.client_address,
        "lock_confirmed_at": None if holder is None else _moment(holder.confirmed_at),
    }
