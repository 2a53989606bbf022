from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from attrs import evolve
from messenger_jobs.domain.call_recording import (
    CallRecording,
    FailureReason,
    Media,
    RecordingAvailable,
    RecordingFailed,
    RecordingStatus,
)
from messenger_jobs.domain.errors import IllegalTransition, InvariantViolation
from messenger_jobs.domain.evidence import RecordingFormat

from tests.support.builders import MICROSECOND, NOW
from tests.support.recordings import ENDED_AT, FILE_ID, LASTED, MEDIA, STARTED_AT, a_recording, found

IN_PROGRESS = [RecordingStatus.RECORDING, RecordingStatus.UPLOADING]
OTHERS = [RecordingStatus.PENDING, RecordingStatus.AVAILABLE, RecordingStatus.FAILED]
MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize("status", IN_PROGRESS)
def test_recording_becomes_available_with_its_file(status: RecordingStatus) -> None:
    before = a_recording(status=status, version=7)
    after, event = before.became_available(MEDIA, now=NOW)
    assert after == evolve(
        before,
        status=RecordingStatus.AVAILABLE,
        media=MEDIA,
        available_at=NOW,
        updated_at=NOW,
        version=8,
    )
    assert event == RecordingAvailable(recording=after)


@pytest.mark.parametrize(
    ("ended", "session_ended", "expected"),
    [
        (ENDED_AT, None, ENDED_AT),
        (ENDED_AT, ENDED_AT + MINUTE, ENDED_AT),
        (None, ENDED_AT + MINUTE, ENDED_AT + MINUTE),
        (None, None, NOW),
    ],
)
def test_available_recording_has_an_end(ended: Any, session_ended: Any, expected: Any) -> None:
    recording = a_recording(ended_at=ended, session_ended_at=session_ended)
    after, _ = recording.became_available(MEDIA, now=NOW)
    assert after.ended_at == expected
    assert after.session_ended_at == session_ended


@pytest.mark.parametrize("status", IN_PROGRESS)
def test_recording_is_lost_with_a_reason(status: RecordingStatus) -> None:
    before = a_recording(status=status, version=7)
    after, event = before.was_lost(FailureReason.TIMEOUT, now=NOW)
    assert after == evolve(
        before, status=RecordingStatus.FAILED, failure_reason="Timeout", updated_at=NOW, version=8
    )
    assert event == RecordingFailed(recording=after)


@pytest.mark.parametrize("status", OTHERS)
def test_nothing_leads_out_of_a_recording_that_is_not_in_progress(status: RecordingStatus) -> None:
    with pytest.raises(IllegalTransition):
        a_recording(status=status).became_available(MEDIA, now=NOW)
    with pytest.raises(IllegalTransition):
        a_recording(status=status).was_lost(FailureReason.TIMEOUT, now=NOW)


@pytest.mark.parametrize(
    ("status", "terminal"),
    [
        (RecordingStatus.PENDING, False),
        (RecordingStatus.RECORDING, False),
        (RecordingStatus.UPLOADING, False),
        (RecordingStatus.AVAILABLE, True),
        (RecordingStatus.FAILED, True),
    ],
)
def test_available_and_failed_are_terminal(status: RecordingStatus, terminal: bool) -> None:
    assert a_recording(status=status).terminal is terminal


@pytest.mark.parametrize("missing", [{"media": None}, {"available_at": None}])
def test_available_without_its_file_or_time_may_not_exist(missing: Any) -> None:
    with pytest.raises(InvariantViolation):
        a_recording(status=RecordingStatus.AVAILABLE, **missing)


@pytest.mark.parametrize("changes", [{"size_bytes": 0}, {"size_bytes": -1}, {"duration_seconds": -1}])
def test_media_that_cannot_be_may_not_exist(changes: dict[str, Any]) -> None:
    with pytest.raises(InvariantViolation):
        evolve(MEDIA, **changes)


def test_smallest_media_may_exist() -> None:
    assert evolve(MEDIA, size_bytes=1, duration_seconds=0).size_bytes == 1


def test_file_is_adopted_as_it_was_found() -> None:
    media = a_recording().media_from(found(size_bytes=17, format=RecordingFormat.MP3))
    assert media == Media(file_id=FILE_ID, size_bytes=17, duration_seconds=3_600, format=RecordingFormat.MP3)


DURATIONS: list[tuple[str, timedelta | None, timedelta | None, timedelta]] = [
    ("stated", timedelta(seconds=5), timedelta(seconds=7), timedelta(seconds=5)),
    ("stated as nothing", timedelta(0), timedelta(seconds=7), timedelta(0)),
    ("stated with the most tolerance", LASTED + MINUTE, timedelta(seconds=7), LASTED + MINUTE),
    ("stated too long", LASTED + MINUTE + MICROSECOND, timedelta(seconds=7), timedelta(seconds=7)),
    ("stated as less than nothing", -MICROSECOND, timedelta(seconds=7), timedelta(seconds=7)),
    ("measured", None, timedelta(seconds=7), timedelta(seconds=7)),
    ("measured with the most tolerance", None, LASTED + MINUTE, LASTED + MINUTE),
    ("measured too long", None, LASTED + MINUTE + MICROSECOND, LASTED),
    ("measured as less than nothing", None, -MICROSECOND, LASTED),
    ("both lie", timedelta(days=400), -timedelta(days=400), LASTED),
    ("neither", None, None, LASTED),
]


@pytest.mark.parametrize(
    ("stated", "measured", "expected"),
    [row[1:] for row in DURATIONS],
    ids=[row[0] for row in DURATIONS],
)
def test_first_duration_that_can_be_true_is_adopted(
    stated: timedelta | None, measured: timedelta | None, expected: timedelta
) -> None:
    evidence = found(stated_duration=stated, measured_duration=measured)
    assert timedelta(seconds=a_recording().media_from(evidence).duration_seconds) == expected


def lasting(recording: CallRecording, **stated: Any) -> int:
    return recording.media_from(found(stated_duration=None, **stated)).duration_seconds


def test_recording_lasted_until_its_session_ended_when_nothing_else_is_known() -> None:
    assert lasting(a_recording(ended_at=None, session_ended_at=STARTED_AT + timedelta(seconds=90))) == 90


def test_own_end_counts_before_the_sessions() -> None:
    recording = a_recording(ended_at=STARTED_AT + timedelta(seconds=30))
    assert lasting(recording) == 30


def test_end_before_the_start_is_no_duration() -> None:
    recording = a_recording(ended_at=STARTED_AT - timedelta(hours=1))
    assert lasting(recording) == 0
    assert lasting(recording, measured_duration=MINUTE) == 60


def test_without_an_end_any_duration_that_is_not_negative_is_believed() -> None:
    recording = a_recording(ended_at=None, session_ended_at=None)
    assert lasting(recording, measured_duration=timedelta(days=3)) == 3 * 86_400
    assert lasting(recording, measured_duration=-MICROSECOND) == 0


def test_duration_is_rounded_to_whole_seconds() -> None:
    seconds = [
        a_recording().media_from(found(stated_duration=timedelta(seconds=number))).duration_seconds
        for number in (0.4, 1.6)
    ]
    assert seconds == [0, 2]
