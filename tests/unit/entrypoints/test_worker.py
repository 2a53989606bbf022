"""The worker over the memory adapters, its time under control."""

from __future__ import annotations

import asyncio
import socket
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from messenger_jobs.application.ports.errors import DatabaseUnavailable, Misconfigured
from messenger_jobs.application.ports.run_lock import RunLease
from messenger_jobs.application.rehearsal import UncontendedRunLocks
from messenger_jobs.application.stop_signal import StopSignal
from messenger_jobs.domain.deal_chat_provision import ProvisionStatus
from messenger_jobs.entrypoints.database import DatabaseUnusable
from messenger_jobs.entrypoints.settings import load_settings
from messenger_jobs.entrypoints.worker import run_worker

from tests.support.builders import PROVISION_ID, a_provision
from tests.support.captured_logs import LogLines, captured_logs
from tests.support.command_line import URL, CommandLine
from tests.support.eventually import eventually

TICK = timedelta(seconds=60)
PATIENCE = 2 * TICK + timedelta(minutes=3)


class Worker:
    """A worker in a task of this process."""

    def __init__(self, parts: CommandLine, logs: LogLines, http_port: int) -> None:
        self.parts = parts
        self.logs = logs
        self.stop = StopSignal()
        self.http_port = http_port
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        settings = load_settings({"MESSENGER_DATABASE_URL": URL, "MESSENGER_HTTP_PORT": str(self.http_port)})
        async with self.parts.compose(settings) as application:
            await run_worker(application, application.jobs, self.stop)

    async def reaches(self, event: str, times: int = 1) -> None:
        await eventually(lambda: self.logs.events().count(event) >= times or self._task.done())
        assert self.logs.events().count(event) >= times, self.logs.events()

    async def stopped(self) -> None:
        self.stop.request()
        await self.ended()

    async def ended(self) -> None:
        await asyncio.wait_for(self._task, 10)

    def cancel(self) -> None:
        self._task.cancel()

    async def get(self, path: str) -> tuple[int, str]:
        return await asyncio.to_thread(self._get, path)

    def _get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as answer:
            with answer:
                return answer.code, answer.read().decode()


@asynccontextmanager
async def working(parts: CommandLine, *, http_port: int = 0) -> AsyncIterator[Worker]:
    with captured_logs() as logs:
        worker = Worker(parts, logs, http_port)
        try:
            yield worker
        finally:
            worker.cancel()
            await asyncio.gather(worker.ended(), return_exceptions=True)


@pytest.fixture
def parts() -> CommandLine:
    return CommandLine()


class BrokenLocks(UncontendedRunLocks):
    """Raises what no port may raise, the first time."""

    def __init__(self) -> None:
        self.broken = True

    @asynccontextmanager
    async def try_acquire(self, name: str) -> AsyncIterator[RunLease]:
        if self.broken:
            self.broken = False
            raise KeyError("Flat 12, Ivanov")
        async with super().try_acquire(name) as lease:
            yield lease


class HangingLocks:
    """Never answers."""

    @asynccontextmanager
    async def try_acquire(self, name: str) -> AsyncIterator[RunLease]:
        del name
        await asyncio.Event().wait()
        yield NotImplemented


async def test_runs_a_cycle_at_start_and_at_every_tick(parts: CommandLine) -> None:
    async with working(parts) as worker:
        await worker.reaches("cycle completed")
        parts.put(a_provision(updated_at=parts.clock.now() - timedelta(minutes=5)))

        parts.clock.advance(TICK)
        await worker.reaches("cycle completed", times=2)
        await worker.stopped()

        assert parts.row(PROVISION_ID).status is ProvisionStatus.READY
        assert worker.logs.events()[-1] == "worker stopped"


async def test_cycle_that_crashes_does_not_end_the_worker(parts: CommandLine) -> None:
    parts.locks = BrokenLocks()
    async with working(parts) as worker:
        await worker.reaches("cycle crashed")
        (crash,) = [line for line in worker.logs.parsed if line["event"] == "cycle crashed"]
        assert (crash["job"], crash["error_code"]) == ("chat-provision-retry", "KeyError")
        assert "Ivanov" not in worker.logs.text

        parts.clock.advance(TICK)
        await worker.reaches("cycle completed")


async def test_database_that_is_down_at_start_is_waited_for(parts: CommandLine) -> None:
    parts.database.unusable = DatabaseUnusable(
        "MESSENGER_DATABASE_URL", DatabaseUnavailable("CONNECTION_LOST", "the connection failed")
    )
    async with working(parts) as worker:
        await worker.reaches("database unreachable at start")

        await worker.reaches("cycle completed")


async def test_database_that_needs_a_person_ends_the_worker_at_start(parts: CommandLine) -> None:
    parts.database.unusable = DatabaseUnusable(
        "MESSENGER_DATABASE_URL", Misconfigured("28P01", "the database refuses the credentials")
    )
    async with working(parts) as worker:
        with pytest.raises(DatabaseUnusable, match="refuses the credentials"):
            await worker.ended()


async def test_error_that_nobody_waits_for_is_told_without_its_message(parts: CommandLine) -> None:
    async with working(parts) as worker:
        await worker.reaches("worker started")

        asyncio.get_running_loop().call_exception_handler(
            {"message": "Flat 12", "exception": ValueError("Ivanov")}
        )

        await worker.reaches("error in the background")
        assert worker.logs.parsed[-1]["error_code"] == "ValueError"
        assert "Flat 12" not in worker.logs.text
        assert "Ivanov" not in worker.logs.text


@pytest.fixture
def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    return port


async def test_probes_follow_the_jobs_and_the_database(parts: CommandLine, free_port: int) -> None:
    async with working(parts, http_port=free_port) as worker:
        await worker.reaches("cycle completed")

        assert (await worker.get("/livez"))[0] == 200
        assert (await worker.get("/readyz"))[0] == 200
        parts.database.unusable = DatabaseUnusable(
            "MESSENGER_DATABASE_URL", DatabaseUnavailable("NO_ANSWER", "the database did not answer")
        )
        assert (await worker.get("/livez"))[0] == 200
        assert (await worker.get("/readyz"))[0] == 503


async def test_job_that_hangs_makes_the_worker_fail_its_liveness_probe(
    parts: CommandLine, free_port: int
) -> None:
    parts.locks = HangingLocks()
    async with working(parts, http_port=free_port) as worker:
        await worker.reaches("worker started")
        parts.clock.advance(PATIENCE)
        assert (await worker.get("/livez"))[0] == 200

        parts.clock.advance(timedelta(seconds=1))

        assert await worker.get("/livez") == (
            503,
            "chat-provision-retry has not completed a cycle for 301 s\n",
        )


async def test_cycles_that_end_keep_the_worker_alive(parts: CommandLine, free_port: int) -> None:
    async with working(parts, http_port=free_port) as worker:
        for cycles in range(1, 8):
            await worker.reaches("cycle completed", times=cycles)
            await eventually(lambda: parts.clock.time_to_next is not None)
            parts.clock.advance(TICK)

        assert parts.clock.monotonic() > PATIENCE.total_seconds()
        assert (await worker.get("/livez"))[0] == 200


async def test_metrics_show_backlog_and_cycles(parts: CommandLine, free_port: int) -> None:
    async with working(parts, http_port=free_port) as worker:
        await worker.reaches("cycle completed")
        parts.put(a_provision(updated_at=parts.clock.now() - timedelta(minutes=5)))

        _, text = await worker.get("/metrics")

    assert "messenger_chat_provision_failed 1.0" in text
    assert "messenger_chat_provision_oldest_age_seconds 86400.0" in text
    assert 'messenger_job_last_success_timestamp_seconds{job="chat-provision-retry"} 1.7' in text
    assert "process_resident_memory_bytes" in text
