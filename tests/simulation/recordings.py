"""Recordings in every state in which a history may begin, and who deals with them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import cache
from typing import Any, Final

from attrs import evolve
from messenger_jobs.adapters.memory.schema import OutboxRow
from messenger_jobs.application.integration_events import call_recording_available
from messenger_jobs.domain.call_recording import CallRecording, RecordingAvailable, RecordingStatus
from messenger_jobs.domain.evidence import Empty, Evidence, Missing, Unsupported
from messenger_jobs.domain.recording_finalize import FinalizeStatus, RecordingFinalize

from tests.simulation.applications import (
    Pace,
    recording_job,
    relay,
    requeue_dead_messages,
    requeue_finalizations,
    session_ended,
    uploaded,
)
from tests.simulation.choices import Choices
from tests.simulation.names import CORRELATION, ENTRY, FILE, RECORDING, SESSION, id_of
from tests.simulation.process import Process
from tests.simulation.simulation import Person, Simulation
from tests.simulation.world import MAX_ATTEMPTS, World
from tests.support.builders import NOW
from tests.support.recordings import MEDIA, a_recording, an_entry, found


@cache  # rows are values: histories can share them
def _recording(number: int, **changes: Any) -> CallRecording:
    recording = a_recording(
        id=id_of(RECORDING, number),
        session_id=id_of(SESSION, number),
        status=changes.pop("status", RecordingStatus.UPLOADING),
    )
    if recording.media is not None:
        recording = evolve(recording, media=evolve(MEDIA, file_id=id_of(FILE, number)))
    return evolve(recording, **changes)


def _put(
    world: World,
    number: int,
    stored: Evidence | None,
    *,
    entry: dict[str, Any] | None = None,
    **changes: Any,
) -> None:
    recording = _recording(number, **changes)
    world.database.put(world.database.recordings, recording)
    _put_entry(world, number, **(entry or {}))
    if stored is not None:
        world.objects[recording.object_key] = stored


def _put_entry(world: World, number: int, **changes: Any) -> None:
    world.database.put(world.database.finalizations, _entry(number, **changes))


@cache
def _entry(number: int, **changes: Any) -> RecordingFinalize:
    return an_entry(
        id=id_of(ENTRY, number),
        recording_id=id_of(RECORDING, number),
        session_id=id_of(SESSION, number),
        next_attempt_at=NOW - timedelta(seconds=number),
        **changes,
    )


@cache
def _file(number: int) -> Evidence:
    return found(file_id=id_of(FILE, number))


def uploaded_unseen(world: World, number: int) -> None:
    _put(world, number, _file(number))


def never_uploaded(world: World, number: int) -> None:
    _put(world, number, Missing())


def still_recording(world: World, number: int) -> None:
    _put(world, number, _file(number), status=RecordingStatus.RECORDING)


def uploaded_empty(world: World, number: int) -> None:
    _put(world, number, Empty())


def uploaded_as_something_else(world: World, number: int) -> None:
    _put(world, number, Unsupported(code="UNKNOWN_CONTENT_TYPE"))


def in_session(world: World, number: int) -> None:
    _put(world, number, None, status=RecordingStatus.RECORDING, session_ended_at=None, ended_at=None)


def ended_just_now(world: World, number: int) -> None:
    _put(world, number, None, session_ended_at=NOW - timedelta(minutes=29))


def available_untold(world: World, number: int) -> None:
    _put(world, number, _file(number), status=RecordingStatus.AVAILABLE)


def available_untold_after_its_last_attempt(world: World, number: int) -> None:
    _put(world, number, _file(number), status=RecordingStatus.AVAILABLE, entry={"attempts": MAX_ATTEMPTS})


def available_and_told(world: World, number: int) -> None:
    _put(world, number, _file(number), status=RecordingStatus.AVAILABLE)
    event_id = id_of(CORRELATION, number)
    message = call_recording_available(
        RecordingAvailable(recording=_recording(number, status=RecordingStatus.AVAILABLE)),
        event_id=event_id,
        correlation_id=event_id,
    )
    row = OutboxRow(id=world.database.next_outbox_id(), message=message, created_at=NOW)
    world.database.put(world.database.outbox, row)


def lost(world: World, number: int) -> None:
    _put(world, number, None, status=RecordingStatus.FAILED)


def recording_gone(world: World, number: int) -> None:
    _put_entry(world, number)


def last_attempt_never_settled(world: World, number: int) -> None:
    _put(world, number, _file(number), entry={"attempts": MAX_ATTEMPTS})


def quarantined(world: World, number: int) -> None:
    _put(world, number, _file(number), entry={"status": FinalizeStatus.QUARANTINED, "attempts": MAX_ATTEMPTS})


def not_opened(world: World, number: int) -> None:
    world.database.put(world.database.recordings, _recording(number))
    world.objects[_recording(number).object_key] = _file(number)


def not_started(world: World, number: int) -> None:
    _put(world, number, None, status=RecordingStatus.PENDING, session_ended_at=None, ended_at=None)


STATES: Final[tuple[tuple[int, Callable[[World, int], None]], ...]] = (
    (4, uploaded_unseen),
    (3, never_uploaded),
    (2, still_recording),
    (1, uploaded_empty),
    (1, uploaded_as_something_else),
    (2, in_session),
    (2, ended_just_now),
    (2, available_untold),
    (1, available_untold_after_its_last_attempt),
    (1, available_and_told),
    (1, lost),
    (1, recording_gone),
    (1, last_attempt_never_settled),
    (1, quarantined),
    (2, not_opened),
    (1, not_started),
)
"""Each with its weight."""


def recordings(simulation: Simulation, choices: Choices) -> None:
    """One to four recordings, two runners of the job, the recorder, the host, an operator, and the callers."""
    world = simulation.world
    count = 1 + choices.pick((4, 3, 2, 2))
    for number in range(1, count + 1):
        state = choices.pick([weight for weight, _ in STATES])
        STATES[state][1](world, number)
    lanes = 1 + choices.pick((4, 1, 1))
    pace = Pace(
        batch_size=(100, 1, 2)[choices.pick((2, 1, 1))],
        lanes=lanes,
        looks_at_once=min(lanes, 2),
        # Longer than a lock may be held: then nothing but the lock itself ends a cycle.
        max_run=(timedelta(minutes=3), timedelta(hours=1))[choices.pick((2, 1))],
    )
    job = recording_job(pace)
    applications = [
        ("recording-job 1", job),
        ("recording-job 2", job),
        ("recorder 1", uploaded(id_of(RECORDING, 1))),
        ("recorder 2", uploaded(id_of(RECORDING, count))),
        ("host", session_ended(id_of(RECORDING, count))),
        ("relay 1", relay(batch_size=(500, 1, 2)[choices.pick((2, 1, 1))])),
        ("relay 2", relay()),
        ("requeue-dead", requeue_dead_messages()),
        ("requeue-finalizations", requeue_finalizations(())),
        (
            "requeue-finalizations of all",
            requeue_finalizations(tuple(id_of(ENTRY, n) for n in range(1, count + 1))),
        ),
    ]
    simulation.processes = [
        Process(name, number, world, application)
        for number, (name, application) in enumerate(applications, 1)
    ]
    for number in range(1, count + 1):
        simulation.people += _people(world, number)


def _people(world: World, number: int) -> list[Person]:
    database, recording_id = world.database, id_of(RECORDING, number)

    def upload_arrives() -> None:
        world.objects[_recording(number).object_key] = _file(number)

    def session_ends() -> None:
        now = database.row(database.recordings, recording_id)
        if now is not None and not now.terminal and now.session_ended_at is None:
            ended_at = world.clock.now()
            database.put(
                database.recordings,
                evolve(
                    now,
                    status=RecordingStatus.UPLOADING,
                    session_ended_at=ended_at,
                    ended_at=ended_at,
                    version=now.version + 1,
                ),
            )

    return [
        Person(f"the upload of recording {number} arrives", upload_arrives),
        Person(f"the session of recording {number} ends", session_ends),
    ]
