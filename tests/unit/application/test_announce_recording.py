"""What is written for a verdict: the rows, the event and the hint, and nothing besides."""

from __future__ import annotations

from datetime import timedelta

import pytest
from messenger_jobs.adapters.memory.clock import ManualClock
from messenger_jobs.application.announce_recording import Announcer
from messenger_jobs.application.integration_events import call_recording_available
from messenger_jobs.application.ports.finalization import FinalizationChange
from messenger_jobs.application.ports.realtime_outbox import RealtimeKind, RealtimeNotice
from messenger_jobs.domain.call_recording import (
    RecordingAvailable,
    RecordingFailed,
    RecordingStatus,
    SessionKind,
)
from messenger_jobs.domain.errors import AttemptError
from messenger_jobs.domain.finalization import (
    Adopt,
    Claim,
    Close,
    Defer,
    Quarantine,
    Release,
    Republish,
    RetryLater,
    TimeOut,
    Verdict,
)

from tests.support.builders import NOW, ids_from, some_id
from tests.support.recordings import RECORDING_ID, SESSION_ID, a_recording, an_entry
from tests.unit.application.traces import TRACE, Traced

RUN_ID = some_id(77)
ENTRY = an_entry(attempts=1)
AVAILABLE = a_recording(status=RecordingStatus.AVAILABLE)
LOST = a_recording(status=RecordingStatus.FAILED)
ERROR = AttemptError("Storage", "TIMED_OUT")


@pytest.fixture
def announcer() -> Announcer:
    clock = ManualClock(NOW)
    clock.advance(timedelta(seconds=7))
    return Announcer(clock=clock, new_id=ids_from(500), tracing=Traced())


def a_notice(number: int, kind: RealtimeKind) -> RealtimeNotice:
    return RealtimeNotice(
        id=some_id(number),
        kind=kind,
        session_kind=SessionKind.DIRECT,
        session_id=SESSION_ID,
        reference_id=RECORDING_ID,
        created_at=NOW + timedelta(seconds=7),
    )


def test_adopted_recording_is_written_and_announced(announcer: Announcer) -> None:
    event = RecordingAvailable(recording=AVAILABLE)
    change = announcer.change(Adopt(entry=ENTRY, recording=AVAILABLE, event=event), RUN_ID)
    assert change == FinalizationChange(
        entry=ENTRY,
        recording=AVAILABLE,
        message=call_recording_available(event, event_id=some_id(500), correlation_id=RUN_ID, trace=TRACE),
        notice=a_notice(501, RealtimeKind.RECORDING_AVAILABLE),
    )


def test_recording_that_nobody_was_told_of_is_announced_as_it_is(announcer: Announcer) -> None:
    event = RecordingAvailable(recording=AVAILABLE)
    change = announcer.change(Republish(entry=ENTRY, event=event), RUN_ID)
    assert change == FinalizationChange(
        entry=ENTRY,
        message=call_recording_available(event, event_id=some_id(500), correlation_id=RUN_ID, trace=TRACE),
        notice=a_notice(501, RealtimeKind.RECORDING_AVAILABLE),
    )


def test_lost_recording_is_hinted_at_and_announced_to_nobody(announcer: Announcer) -> None:
    verdict = TimeOut(entry=ENTRY, recording=LOST, event=RecordingFailed(recording=LOST))
    assert announcer.change(verdict, RUN_ID) == FinalizationChange(
        entry=ENTRY, recording=LOST, notice=a_notice(500, RealtimeKind.RECORDING_FAILED)
    )


@pytest.mark.parametrize(
    "verdict",
    [
        Claim(entry=ENTRY),
        Close(entry=ENTRY),
        Defer(entry=ENTRY),
        RetryLater(entry=ENTRY, error=ERROR),
        Quarantine(entry=ENTRY, error=ERROR),
        Release(entry=ENTRY, error=ERROR),
    ],
    ids=lambda verdict: type(verdict).__name__,
)
def test_any_other_verdict_changes_the_row_alone(announcer: Announcer, verdict: Verdict) -> None:
    assert announcer.change(verdict, RUN_ID) == FinalizationChange(entry=ENTRY)
