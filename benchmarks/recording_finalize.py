"""How fast a cycle of ``recording-finalize-retry`` is, as a share of what server and storage can do in the same run.

    python -m benchmarks.recording_finalize            # everything, some minutes
    python -m benchmarks.recording_finalize --quick    # fewer rows and rounds: to see that it works

The limit is the slower of two: pgbench doing a row's two transactions as two server-side functions, and storage,
which answers as many lookups at once as there are lanes, each after its latency. Both have their connections open when
the time begins. Job and pgbench alternate, round by round; a ratio is formed within its round. Last comes the
event loop's lag while 64 lookups of the real client hang.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Final
from uuid import uuid4

from attrs import frozen
from messenger_jobs.adapters.local.postgres_server import PostgresServer
from messenger_jobs.adapters.telemetry.logging import configure_logging
from messenger_jobs.application.cycle_report import Outcome
from messenger_jobs.application.recording_finalize_retry import RECORDING_FINALIZE_RETRY
from messenger_jobs.application.stop_signal import StopSignal
from messenger_jobs.domain.evidence import Evidence, Found, RecordingFormat
from messenger_jobs.entrypoints.bootstrap import Application, bootstrap
from messenger_jobs.entrypoints.settings import Settings, load_settings
from rich.console import Console
from rich.table import Table

from benchmarks.provision_cycle import run
from benchmarks.server import SQL, benchmark_server, execute, pgbench

LATENCIES: Final = (0.0, 0.020, 0.200)
"""Seconds that storage takes to answer."""
CONCURRENCIES: Final = (4, 8, 32)
WARMING_UP: Final = 10
"""Rows for each lane, in a cycle that opens the connections before the one that is measured."""
AT_LEAST: Final = 0.75
HANGING: Final = 64
LONGEST_LAG: Final = 0.050
"""Seconds."""


FOUND: Final = Found(
    file_id=uuid4(),
    size_bytes=4_096,
    format=RecordingFormat.WEBM,
    stated_duration=timedelta(hours=1),
    measured_duration=None,
)


@frozen
class DistantStorage:
    """Has every file, and says so after ``latency`` seconds, in which this process has nothing to do with it."""

    latency: float

    async def look(self, object_key: str) -> Evidence:
        """Found."""
        del object_key
        await asyncio.sleep(self.latency)
        return FOUND


@frozen(kw_only=True)
class Measured:
    """Rows per second of the job and of its two limits, round by round."""

    latency: float
    concurrency: int
    job: Sequence[float]
    server: Sequence[float]

    @property
    def storage(self) -> float:
        """Lookups per second at this concurrency."""
        return self.concurrency / self.latency if self.latency else float("inf")

    @property
    def ratio(self) -> float:
        """The median share of the limit."""
        limits = (min(rate, self.storage) for rate in self.server)
        return statistics.median(rate / limit for rate, limit in zip(self.job, limits, strict=True))


def settings(url: str, *, endpoint: str = "storage.invalid", **options: object) -> Settings:
    """A worker's, whose cycle lasts until the table is empty."""
    prefix = "MESSENGER_RECORDING_FINALIZE_RETRY_"
    return load_settings(
        {
            "MESSENGER_DATABASE_URL": url,
            "MESSENGER_RECORDINGS_ENABLED": "true",
            "MESSENGER_S3_ENDPOINT": endpoint,
            "MESSENGER_S3_SECURE": "false",
            "MESSENGER_S3_ACCESS_KEY": "benchmark",
            "MESSENGER_S3_SECRET_KEY": "benchmark",
            "MESSENGER_S3_BUCKET_CALL_RECORDINGS": "recordings",
            f"{prefix}MAX_RUN_DURATION": "1h",
            f"{prefix}LOCK_TTL": "2h",
            **{f"{prefix}{name}": str(value) for name, value in options.items()},
        }
    )


def fresh(url: str, rows: int) -> None:
    """Fill the tables with recordings to be finished, and leave the server with nothing else to do."""
    execute(url, f"call bench.fill_finalize_queue({rows})", "analyze", "checkpoint")


async def cycle(url: str, rows: int, latency: float, concurrency: int) -> float:
    """Rows per second of one cycle over a fresh table, on connections that are open, as those of pgbench are."""
    async with bootstrap(
        settings(url, CONCURRENCY=concurrency), storage=DistantStorage(latency)
    ) as application:
        await finish_all(application, url, WARMING_UP * concurrency)
        return await finish_all(application, url, rows)


async def finish_all(application: Application, url: str, rows: int) -> float:
    """Rows per second of one cycle, in which all of them must become available."""
    fresh(url, rows)
    started = time.perf_counter()
    report = await application.jobs[RECORDING_FINALIZE_RETRY].run(StopSignal())
    seconds = time.perf_counter() - started
    if report.counts != {Outcome.RECONCILED: rows}:
        raise RuntimeError(f"the cycle was to finish {rows} recordings, but: {report}")
    return rows / seconds


def measure(server: PostgresServer, *, rows: int, rounds: int, latency: float, concurrency: int) -> Measured:
    """The job beside pgbench, in alternation."""
    url = server.url()
    # A slow storage needs fewer rows for a steady state.
    rows = min(rows, int(concurrency / latency * 4)) if latency else rows
    job, limit = [], []
    for _ in range(rounds):
        job.append(run(cycle(url, rows, latency, concurrency)))
        clients, transactions = concurrency, max(rows, 2_000)
        fresh(url, transactions)
        limit.append(
            pgbench(server, "finalize_functions.pgbench", clients=clients, transactions=transactions)
        )
    return Measured(latency=latency, concurrency=concurrency, job=job, server=limit)


@contextmanager
def silent_server() -> Iterator[str]:
    """Takes every request and answers none; in its queue there is room for those of every round."""
    with socket.create_server(("127.0.0.1", 0), backlog=32 * HANGING) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


async def lag_while_lookups_hang(url: str, endpoint: str) -> float:
    """The longest that the event loop was late, in seconds, during a cycle all of whose lookups hang at once."""
    options = {"CONCURRENCY": HANGING, "STORAGE_TIMEOUT": "3s"}
    async with bootstrap(settings(url, endpoint=endpoint, **options)) as application:
        await application.recordings_backlog()
        cycle = asyncio.ensure_future(application.jobs[RECORDING_FINALIZE_RETRY].run(StopSignal()))
        pause, longest = 0.005, 0.0
        while not cycle.done():
            due = time.perf_counter() + pause
            await asyncio.sleep(pause)
            longest = max(longest, time.perf_counter() - due)
        report = await cycle
    if report.counts != {Outcome.RETRIED: HANGING}:
        raise RuntimeError(f"{HANGING} lookups were to hang, but: {report}")
    return longest


def lag(url: str, rounds: int) -> list[float]:
    """The longest lag of each round."""
    found = []
    with silent_server() as endpoint:
        for _ in range(rounds):
            fresh(url, HANGING)
            found.append(run(lag_while_lookups_hang(url, endpoint)))
    return found


def main() -> int:
    """Measure, show, and say by the exit code whether everything was reached."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rows and rounds")
    quick = parser.parse_args().quick
    rows, rounds = (1_000, 1) if quick else (5_000, 5)
    configure_logging("json", "error")
    console = Console(width=110)
    table = Table("storage answers after", "lanes", "rows/s", "pgbench", "storage", "share of the limit")
    with benchmark_server() as server:
        execute(server.url(), (SQL / "finalize_baseline.sql").read_text())
        found = [
            measure(server, rows=rows, rounds=rounds, latency=latency, concurrency=concurrency)
            for latency in LATENCIES
            for concurrency in CONCURRENCIES
        ]
        lags = lag(server.url(), rounds)
    for each in found:
        table.add_row(
            f"{each.latency * 1000:g} ms",
            str(each.concurrency),
            f"{statistics.median(each.job):,.0f}",
            f"{statistics.median(each.server):,.0f}",
            f"{each.storage:,.0f}",
            f"{each.ratio:.2f}" + ("" if each.ratio >= AT_LEAST else f"  (asked: {AT_LEAST})"),
        )
    console.print(table)
    console.print(f"event loop's lag while {HANGING} lookups hang: {statistics.median(lags) * 1000:.0f} ms")
    reached = all(each.ratio >= AT_LEAST for each in found) and statistics.median(lags) < LONGEST_LAG
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
