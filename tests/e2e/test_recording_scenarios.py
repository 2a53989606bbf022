"""Recordings that got stuck, on a real PostgreSQL and a real S3."""

from __future__ import annotations

import asyncio
import random
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from messenger_jobs.application.cycle_report import Outcome
from messenger_jobs.application.finalize_uploaded_recording import UploadResult
from messenger_jobs.application.rehearsal import UncontendedRunLocks
from messenger_jobs.application.stop_signal import StopSignal
from messenger_jobs.domain.call_recording import RecordingStatus
from messenger_jobs.domain.evidence import RecordingFormat
from messenger_jobs.domain.recording_finalize import FinalizeStatus
from messenger_jobs.entrypoints.bootstrap import Application, bootstrap
from messenger_jobs.entrypoints.settings import Settings, load_settings

from tests.e2e.recordings import JOB, Recordings
from tests.support.builders import some_id
from tests.support.eventually import eventually_here
from tests.support.processes import run, run_json, worker
from tests.support.s3_servers import Bucket, owned
from tests.support.seaweed_server import SeaweedServer


@pytest.fixture
def recordings(database_url: str, bucket: Bucket) -> Recordings:
    return Recordings(database_url, bucket)


@pytest.fixture
def storage_that_hangs() -> Iterator[str]:
    """The address of a server that takes every request and answers none."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        host, port = server.getsockname()
        yield f"{host}:{port}"


def run_once(recordings: Recordings, **settings: object) -> Any:
    return run_json(recordings.url, "run-once", JOB, **recordings.settings(**settings))


def settings_of(recordings: Recordings, **different: object) -> Settings:
    variables = recordings.settings(**different) | {"MESSENGER_DATABASE_URL": recordings.url}
    return load_settings(variables)


async def callback(application: Application, id: UUID) -> UploadResult:
    assert application.recordings is not None
    return await application.recordings.finalize_uploaded(
        id,
        file_id=some_id(1),
        size_bytes=17,
        duration_seconds=3,
        format=RecordingFormat.WEBM,
        correlation_id=uuid4(),
    )


# The ten scenarios


def test_nothing_due_changes_nothing_and_is_a_success(recordings: Recordings) -> None:
    waiting = recordings.put(entry={"status": FinalizeStatus.QUARANTINED})
    before = recordings.state(waiting)

    summary = run_once(recordings)

    counted = ("reconciled", "republished", "failed", "quarantined", "retried", "deferred", "skipped")
    assert summary["end"] == "completed"
    assert [summary[name] for name in counted] == [0] * len(counted)
    assert recordings.state(waiting) == before


@pytest.mark.parametrize("status", [RecordingStatus.UPLOADING, RecordingStatus.RECORDING])
def test_lost_callback_is_made_up_for_with_the_file_in_storage(
    recordings: Recordings, status: RecordingStatus
) -> None:
    id = recordings.put(status=status)

    summary = run_once(recordings)

    assert summary["reconciled"] == 1
    assert recordings.state(id).available
    assert recordings.state(id).duration_seconds == 3
    ((topic, key, payload),) = recordings.query(
        "select topic, message_key, payload from messenger.outbox_messages"
    )
    assert topic == "pin.messenger.call-recording-available.v1"
    assert (key, payload["recordingId"], payload["format"]) == (payload["sessionId"], str(id), "WebM")
    assert recordings.violations() == []


def test_lost_callback_without_a_file_fails_with_an_alert(recordings: Recordings) -> None:
    id = recordings.put(file=False)

    finished = run(recordings.url, "run-once", JOB, **recordings.settings())

    assert recordings.state(id).lost
    assert '"failure_reason": "Timeout"' in finished.stderr
    assert '"level": "error"' in finished.stderr
    assert recordings.violations() == []


def test_available_recording_that_was_never_published_is_published_once(recordings: Recordings) -> None:
    id = recordings.put(status=RecordingStatus.AVAILABLE)

    assert run_once(recordings)["republished"] == 1
    assert run_once(recordings)["republished"] == 0

    assert recordings.state(id).available
    assert recordings.violations() == []


async def test_callback_that_came_before_the_tick_wins(recordings: Recordings) -> None:
    id = recordings.put(file=False)
    left_open = recordings.put(file=False)
    async with bootstrap(settings_of(recordings)) as application:
        assert await callback(application, id) is UploadResult.AVAILABLE
        assert await callback(application, left_open) is UploadResult.AVAILABLE
        recordings.query(  # by a host that knows nothing of the finalization
            "update messenger.recording_finalize_attempts set status = 'Pending' where recording_id = %s"
            " returning id",
            left_open,
        )
        report = await application.jobs[JOB].run(StopSignal())
        assert await callback(application, id) is UploadResult.ALREADY_AVAILABLE

    assert report.counts == {Outcome.CLOSED: 1}
    assert recordings.state(id).available
    assert recordings.state(left_open).available


def test_storage_that_is_down_costs_an_attempt_and_is_asked_again(
    database_url: str, own_s3_server: SeaweedServer
) -> None:
    with owned(own_s3_server).new_bucket() as bucket:
        recordings = Recordings(database_url, bucket)
        id = recordings.put()
        own_s3_server.kill()

        summary = run_once(recordings)

        assert summary["retried"] == 1
        state = recordings.state(id)
        assert state.unfinished
        assert (state.entry, state.attempts) == ("Pending", 1)
        assert state.last_error is not None
        assert state.last_error.startswith("Storage:")
        ((waits),) = recordings.query(
            "select next_attempt_at > now() + interval '40 seconds' from messenger.recording_finalize_attempts"
        )
        assert waits == (True,)

        own_s3_server.start()
        assert run_once(recordings)["reconciled"] == 0
        recordings.let_the_delay_pass()
        assert run_once(recordings)["reconciled"] == 1
        assert recordings.state(id).available
        assert recordings.violations() == []


def test_recording_that_storage_never_answers_for_is_quarantined_with_an_alert_until_requeued(
    recordings: Recordings,
) -> None:
    with socket.socket() as nobody:  # bound and not listening: nobody else gets the port, and nobody answers
        nobody.bind(("127.0.0.1", 0))
        down = f"127.0.0.1:{nobody.getsockname()[1]}"
        id = recordings.put()
        settings = recordings.settings(MESSENGER_S3_ENDPOINT=down, MAX_ATTEMPTS=2)
        run(recordings.url, "run-once", JOB, **settings)
        recordings.let_the_delay_pass()
        last = run(recordings.url, "run-once", JOB, **settings)

    state = recordings.state(id)
    assert state.unfinished
    assert (state.entry, state.attempts) == ("Quarantined", 2)
    assert '"event": "recording quarantined"' in last.stderr
    assert run_once(recordings)["reconciled"] == 0

    settings = recordings.settings()
    requeued = run_json(recordings.url, "requeue", JOB, "--all", **settings)
    assert [row["requeued"] for row in requeued] == [True]
    assert run_once(recordings)["reconciled"] == 1
    assert recordings.state(id).available


def test_two_workers_finish_every_recording_once(recordings: Recordings) -> None:
    there = [recordings.put() for _ in range(15)]
    gone = [recordings.put(file=False) for _ in range(15)]
    settings = recordings.settings(POLLING_INTERVAL=0.2, BATCH_SIZE=5)
    with ExitStack() as workers:
        for _ in range(2):
            workers.enter_context(worker(recordings.url, **settings))
        eventually_here(recordings.finished, within=60)

    assert all(recordings.state(id).available for id in there)
    assert all(recordings.state(id).lost for id in gone)
    assert recordings.violations() == []


async def test_two_runners_without_the_lock_finish_every_recording_once(recordings: Recordings) -> None:
    ids = [recordings.put(file=number % 2 == 0) for number in range(30)]
    settings = settings_of(recordings)
    async with (
        bootstrap(settings, locks=UncontendedRunLocks()) as one,
        bootstrap(settings, locks=UncontendedRunLocks()) as two,
    ):
        reports = await asyncio.gather(*(each.jobs[JOB].run(StopSignal()) for each in (one, two)))

    counts = {
        outcome: sum(report.counts.get(outcome, 0) for report in reports)
        for outcome in (Outcome.RECONCILED, Outcome.FAILED)
    }
    assert counts == {Outcome.RECONCILED: 15, Outcome.FAILED: 15}
    for number, id in enumerate(ids):
        state = recordings.state(id)
        assert state.available if number % 2 == 0 else state.lost
        assert state.attempts == 1
    assert await recordings.audited() == []


def test_asked_to_stop_during_the_look_it_finishes_the_row_in_hand_and_frees_the_lock(
    recordings: Recordings, storage_that_hangs: str
) -> None:
    ids = [recordings.put() for _ in range(3)]
    settings = recordings.settings(
        MESSENGER_S3_ENDPOINT=storage_that_hangs, CONCURRENCY=1, POLLING_INTERVAL=0.1
    )
    with worker(recordings.url, **settings) as running:
        eventually_here(lambda: any(recordings.state(id).attempts for id in ids))
        running.send(signal.SIGTERM)
        assert running.exit_code() == 0

    states = [recordings.state(id) for id in ids]
    assert sorted(state.attempts for state in states) == [0, 0, 1]
    assert sum(state.last_error is not None for state in states) == 1
    assert all(state.unfinished for state in states)
    eventually_here(lambda: not recordings.lock_is_held())


def test_recording_is_finished_within_its_time_and_one_interval(recordings: Recordings) -> None:
    sla, interval = timedelta(seconds=2), timedelta(seconds=0.5)
    settings = recordings.settings(FINALIZE_SLA_TIMEOUT=sla.total_seconds(), POLLING_INTERVAL=0.5)
    with worker(recordings.url, **settings) as running:
        running.logs("worker started")
        id = recordings.put(ended=timedelta(0))
        eventually_here(recordings.finished, within=30)

    ((took,),) = recordings.query("select available_at - session_ended_at from messenger.call_recordings")
    assert sla <= took <= sla + interval + timedelta(seconds=3)  # what a loaded machine needs
    assert recordings.state(id).attempts == 1


# What else must not do harm


def test_worker_killed_during_every_look_is_stopped_by_quarantine_and_never_tried_once_more(
    recordings: Recordings, storage_that_hangs: str
) -> None:
    id = recordings.put()
    settings = recordings.settings(
        MESSENGER_S3_ENDPOINT=storage_that_hangs, MAX_ATTEMPTS=3, POLLING_INTERVAL=0.1
    )
    for attempt in (1, 2, 3):
        with worker(recordings.url, **settings) as running:
            eventually_here(lambda attempt=attempt: recordings.state(id).attempts == attempt)  # type: ignore[misc]
            running.send(signal.SIGKILL)
            running.exit_code()
        state = recordings.state(id)
        assert (state.entry, state.last_error, state.unfinished) == ("Pending", None, True)
        eventually_here(lambda: not recordings.lock_is_held())
        recordings.let_the_delay_pass()

    assert run_once(recordings, MAX_ATTEMPTS=3)["quarantined"] == 1

    state = recordings.state(id)
    assert (state.entry, state.attempts) == ("Quarantined", 3)
    assert state.last_error == "Finalize:ATTEMPT_NEVER_SETTLED"
    assert state.unfinished
    assert recordings.violations(max_attempts=3) == []


async def test_callbacks_that_race_the_job_finish_every_recording_once(recordings: Recordings) -> None:
    dice = random.Random(7)
    ids: list[UUID] = []
    async with bootstrap(settings_of(recordings)) as application:
        for _ in range(3):
            batch = [recordings.put(file=dice.random() < 0.7) for _ in range(25)]
            ids += batch
            dice.shuffle(batch)
            late = [id for id in batch if dice.random() < 0.8]

            async def callbacks(late: list[UUID] = late) -> list[UploadResult]:
                return [await callback(application, id) for id in late]

            report, results = await asyncio.gather(application.jobs[JOB].run(StopSignal()), callbacks())
            assert Outcome.ROLLED_BACK not in report.counts
            assert set(results) <= {
                UploadResult.AVAILABLE,
                UploadResult.ALREADY_AVAILABLE,
                UploadResult.ALREADY_FAILED,
            }

    states = [recordings.state(id) for id in ids]
    assert all(state.available or state.lost for state in states)
    assert await recordings.audited() == []


async def test_rejected_credentials_lose_no_recording(recordings: Recordings) -> None:
    ids = [recordings.put(file=number % 2 == 0) for number in range(10)]
    async with bootstrap(settings_of(recordings, MESSENGER_S3_SECRET_KEY="wrong-secret")) as application:
        report = await application.jobs[JOB].run(StopSignal())

    assert report.counts.keys() <= {Outcome.RELEASED, Outcome.SKIPPED}
    assert all(recordings.state(id).unfinished and recordings.state(id).attempts == 0 for id in ids)


async def test_missing_bucket_loses_no_recording(recordings: Recordings) -> None:
    ids = [recordings.put(file=False) for _ in range(3)]
    different = {"MESSENGER_S3_BUCKET_CALL_RECORDINGS": f"missing-{uuid4().hex}"}
    async with bootstrap(settings_of(recordings, **different)) as application:
        await application.jobs[JOB].run(StopSignal())

    assert all(recordings.state(id).unfinished and recordings.state(id).attempts == 0 for id in ids)


def test_dry_run_writes_nothing(recordings: Recordings) -> None:
    there, gone = recordings.put(), recordings.put(file=False)
    before = recordings.state(there), recordings.state(gone)

    summary = run_json(recordings.url, "run-once", JOB, "--dry-run", **recordings.settings())

    assert (summary["reconciled"], summary["failed"]) == (1, 1)
    assert (recordings.state(there), recordings.state(gone)) == before


def test_status_shows_the_recordings_backlog(recordings: Recordings) -> None:
    recordings.put()
    recordings.put()
    recordings.put(entry={"status": FinalizeStatus.QUARANTINED})

    _, status, _ = run_json(recordings.url, "status", **recordings.settings())

    assert status["job"] == JOB
    assert (status["pending"], status["due"], status["quarantined"]) == (2, 2, 1)
    assert status["lock_holder_pid"] is None


def test_job_is_there_only_where_recordings_are_enabled(recordings: Recordings) -> None:
    finished = run(recordings.url, "run-once", JOB)

    assert finished.returncode == 2
    assert finished.stderr == (
        f"messenger-jobs: {JOB} runs only where MESSENGER_RECORDINGS_ENABLED is true\n"
    )
