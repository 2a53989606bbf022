"""What happens in the demo: seed, work, kill, work again, prove."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from attrs import frozen
from psycopg import AsyncConnection
from psycopg.rows import dict_row, scalar_row

from ...adapters.local.postgres_server import PostgresServer, serving
from ...adapters.postgres.audit import Finding, audit
from ...adapters.postgres.migrations import migrate
from ...application.chat_provision_retry import CHAT_PROVISION_RETRY
from ...application.ports.provisioning import ProvisioningUnit
from ...domain.provisioning import ProvisionSnapshot
from ..bootstrap import bootstrap
from ..settings import load_settings
from . import scenarios

FIRST_WORKER: Final = "worker"
SECOND_WORKER: Final = "another worker"

KILL_AT: Final = 0.4
"""The share of the work that is done when the worker is killed."""

DEADLINE: Final = 100.0
"""Seconds after which the demo gives up waiting for the worker."""

_PREFIX: Final = "MESSENGER_CHAT_PROVISION_RETRY_"

Progress = Callable[[str, int, int], None]


@frozen(kw_only=True)
class ScenarioResult:
    """How the deals of one scenario ended, beside how they were expected to."""

    scenario: scenarios.Scenario
    status: str
    deals: int
    chats: int
    feed_entries: int
    events: int
    present: int

    @property
    def as_expected(self) -> bool:
        """Whether status and number of events are as the scenario says."""
        return self.status == self.scenario.ends and self.events == self.scenario.events * self.deals


@frozen(kw_only=True)
class DemoResult:
    """What the demo showed; ``killed_at`` is the number of deals finished when the worker was killed."""

    results: Sequence[ScenarioResult]
    findings: Sequence[Finding]
    killed_at: int
    seconds: float

    @property
    def proven(self) -> bool:
        """Whether everything ended as expected and no invariant is broken."""
        return all(result.as_expected for result in self.results) and not any(
            finding.violations for finding in self.findings
        )


async def play(*, deals: int, progress: Progress) -> DemoResult:
    """Run the demo on a server and in a folder of its own; both are gone afterwards, whatever happens.

    Raises `PostgresServerError` when the embedded server cannot be had, `TimeoutError` when the worker does not finish.
    """
    loop = asyncio.get_running_loop()
    begun = loop.time()
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="messenger-jobs-demo-"))
        server = await stack.enter_async_context(serving(PostgresServer(Path(folder), temporary=True)))
        url = server.url()
        await asyncio.to_thread(migrate, url)
        observer = await stack.enter_async_context(await AsyncConnection.connect(url, autocommit=True))
        progress("PostgreSQL with deals", 0, 1)
        await _seed(observer, deals)
        progress("PostgreSQL with deals", 1, 1)
        total = await _unfinished(observer)
        consumer = await stack.enter_async_context(_consumer_in_flight(url, await _ids(observer)))

        async with _worker(url) as worker:
            killed_at = await _watch(
                observer, progress, FIRST_WORKER, total, until=lambda done: done >= KILL_AT * total
            )
            os.kill(worker.pid, signal.SIGKILL)
            await worker.wait()
        await consumer()
        async with _worker(url) as worker:
            await _watch(observer, progress, SECOND_WORKER, total, until=lambda done: done >= total)
            worker.terminate()
            await worker.wait()
        findings = await audit(
            observer,
            max_attempts=scenarios.MAX_ATTEMPTS,
            since=datetime.now(UTC) - timedelta(days=1),
        )
        return DemoResult(
            results=await _results(observer),
            findings=findings,
            killed_at=killed_at,
            seconds=loop.time() - begun,
        )


async def _seed(observer: AsyncConnection[Any], deals: int) -> None:
    counts = scenarios.counts(deals)
    parameters = {
        "names": list(counts),
        "counts": list(counts.values()),
        "max_attempts": scenarios.MAX_ATTEMPTS,
    }
    for statement in scenarios.SEED:
        await observer.execute(statement, parameters if "%(" in statement else None)


async def _unfinished(observer: AsyncConnection[Any]) -> int:
    cursor = await observer.execute(
        "select count(*)::int from demo.deals where scenario not in ('in flight', 'fresh', 'poison')"
    )
    row: tuple[int] | None = await cursor.fetchone()
    return row[0] if row else 0


async def _ids(observer: AsyncConnection[Any]) -> list[UUID]:
    async with observer.cursor(row_factory=scalar_row) as cursor:
        await cursor.execute(scenarios.IN_FLIGHT)
        return [UUID(str(id_)) for id_ in await cursor.fetchall()]


@asynccontextmanager
async def _consumer_in_flight(url: str, ids: Sequence[UUID]) -> AsyncGenerator[Callable[[], Awaitable[None]]]:
    """Hold rows locked as the consumer of created deals does; the value lets it finish and commit them."""
    settings = load_settings({**_variables(url), f"{_PREFIX}CONCURRENCY": str(len(ids))})
    async with bootstrap(settings) as application, AsyncExitStack() as transactions:
        provisioning = application.provisioning
        now = application.clock.now()
        held: list[tuple[ProvisioningUnit, ProvisionSnapshot]] = []
        for id_ in ids:
            work = await transactions.enter_async_context(application.store.begin())
            seen = await work.claim(id_, as_of=now, rules=provisioning.rules)
            if seen is not None:
                held.append((work, seen))

        async def finish() -> None:
            for work, seen in held:
                await provisioning.within(work, seen, correlation_id=seen.provision.id)
                await work.commit()

        yield finish


def _variables(url: str) -> dict[str, str]:
    return {
        "MESSENGER_DATABASE_URL": url,
        "MESSENGER_LOG_LEVEL": "error",
        f"{_PREFIX}POLLING_INTERVAL": "0.5",
        f"{_PREFIX}MAX_ATTEMPTS": str(scenarios.MAX_ATTEMPTS),
        f"{_PREFIX}BACKOFF_BASE": "0.5",
        f"{_PREFIX}BACKOFF_CAP": "1",
        f"{_PREFIX}CONCURRENCY": "2",
    }


@asynccontextmanager
async def _worker(url: str) -> AsyncGenerator[asyncio.subprocess.Process]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MESSENGER_")}
    command = (sys.executable, "-m", "messenger_jobs", "worker", "--job", CHAT_PROVISION_RETRY)
    worker = await asyncio.create_subprocess_exec(
        *command,
        env={**inherited, **_variables(url)},
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield worker
    finally:
        if worker.returncode is None:
            worker.kill()
            await worker.wait()


async def _watch(
    observer: AsyncConnection[Any],
    progress: Progress,
    step: str,
    total: int,
    *,
    until: Callable[[int], bool],
) -> int:
    async with asyncio.timeout(DEADLINE):
        while True:
            cursor = await observer.execute(scenarios.PROGRESS, {"max_attempts": scenarios.MAX_ATTEMPTS})
            row: tuple[int] | None = await cursor.fetchone()
            done = row[0] if row else 0
            progress(step, done, total)
            if until(done):
                return done
            await asyncio.sleep(0.05)


async def _results(observer: AsyncConnection[Any]) -> list[ScenarioResult]:
    by_name = {scenario.name: scenario for scenario in scenarios.SCENARIOS}
    async with observer.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(scenarios.RESULT)
        rows = await cursor.fetchall()
    order = list(by_name)
    results = [
        ScenarioResult(
            scenario=by_name[str(row["scenario"])],
            status=str(row["status"]),
            **{name: int(row[name] or 0) for name in ("deals", "chats", "feed_entries", "events", "present")},
        )
        for row in rows
    ]
    return sorted(results, key=lambda result: order.index(result.scenario.name))
