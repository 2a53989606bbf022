"""What happens in the demo: seed, work without a bucket, work, kill, work again, prove."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, LiteralString, Protocol
from uuid import UUID

from attrs import frozen
from psycopg import AsyncConnection
from psycopg.rows import scalar_row, tuple_row

from ...adapters.local.postgres_server import PostgresServer, serving
from ...adapters.postgres.audit import audit
from ...adapters.postgres.migrations import migrate
from ...application.options import RecordingFinalizeRetryOptions
from ...application.ports.provisioning import ProvisioningUnit
from ...domain.provisioning import ProvisionSnapshot
from ..bootstrap import bootstrap
from ..settings import load_settings
from . import arrivals, deals, recordings
from .bucket import Bucket
from .results import DemoResult, Finished, Harm, deal_results, harm, recording_results
from .worker import chat_settings, running_worker

BUCKET_AT: Final = 0.25
"""The share of the deals that are finished when the bucket is created."""

KILL_AT: Final = 0.4
"""The share of the recordings that are finished when the worker is killed."""

DEADLINE: Final = 100.0
"""Seconds after which the demo gives up waiting for the worker."""


class Audience(Protocol):
    """Who watches."""

    def shown(self, step: str, done: int, total: int) -> None:
        """So much of a step is done."""
        ...

    def told(self, sentence: str) -> None:
        """Something happened."""
        ...


async def play(*, number_of_deals: int, number_of_recordings: int, audience: Audience) -> DemoResult:
    """Run the demo on a server and in a folder of its own; both are gone afterwards, whatever happens.

    Raises `PostgresServerError` when the embedded server cannot be had, `TimeoutError` when the worker does not finish.
    """
    loop = asyncio.get_running_loop()
    begun = loop.time()
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(_temporary_folder())
        server = await stack.enter_async_context(serving(PostgresServer(folder, temporary=True)))
        url = server.url()
        await asyncio.to_thread(migrate, url)
        observer = await stack.enter_async_context(await AsyncConnection.connect(url, autocommit=True))
        files = stack.enter_context(_temporary_folder())
        bucket, events = Bucket(files / "bucket"), files / "events.jsonl"
        audience.shown("PostgreSQL with rows", 0, 1)
        await _seed(observer, deals.SEED, deals.counts(number_of_deals))
        await _seed(observer, recordings.SEED, recordings.counts(number_of_recordings))
        await asyncio.to_thread(bucket.lay_down, await _rows(observer, recordings.FILES))
        audience.shown("PostgreSQL with rows", 1, 1)
        total = Finished(
            deals=await _number(observer, deals.TOTAL),
            recordings=await _number(observer, recordings.TOTAL),
        )
        watch = _Watch(observer, audience, total)
        consumer = await stack.enter_async_context(_consumer_in_flight(url, await _ids(observer)))

        audience.told("A worker starts. The bucket of the recordings does not exist yet.")
        async with running_worker(url, bucket.folder, events) as worker:
            await watch.until("worker", lambda done: done.deals >= BUCKET_AT * total.deals)
            without_bucket = await _without_bucket(observer)
            bucket.create()
            audience.told("The bucket is there now.")
            killed_at = await watch.until(
                "worker", lambda done: done.recordings >= KILL_AT * total.recordings
            )
            os.kill(worker.pid, signal.SIGKILL)
            await worker.wait()
        audience.told("The worker was killed with SIGKILL in the middle of its work. Another starts.")
        await consumer()
        async with running_worker(url, bucket.folder, events) as worker:
            await watch.until("another worker", lambda done: done == total)
            await watch.until_all_events_arrived()
            worker.terminate()
            await worker.wait()
        findings = await audit(
            observer,
            max_attempts=deals.MAX_ATTEMPTS,
            max_finalize_attempts=RecordingFinalizeRetryOptions().max_attempts,
            since=datetime.now(UTC) - timedelta(days=1),
        )
        return DemoResult(
            deals=await deal_results(observer),
            recordings=await recording_results(observer),
            findings=findings,
            arrivals=arrivals.arrivals(events, await _rows(observer, arrivals.COMMITTED)),
            without_bucket=without_bucket,
            killed_at=killed_at,
            seconds=loop.time() - begun,
        )


@contextmanager
def _temporary_folder() -> Generator[Path]:
    with tempfile.TemporaryDirectory(prefix="messenger-jobs-demo-") as folder:
        yield Path(folder)


@frozen
class _Watch:
    """Looks at what is finished until it is enough."""

    observer: AsyncConnection[Any]
    audience: Audience
    total: Finished

    async def until(self, worker: str, enough: Callable[[Finished], bool]) -> Finished:
        async with asyncio.timeout(DEADLINE):
            while True:
                done = Finished(
                    deals=await _number(self.observer, deals.PROGRESS, {"max_attempts": deals.MAX_ATTEMPTS}),
                    recordings=await _number(self.observer, recordings.PROGRESS),
                )
                self.audience.shown(f"{worker}: deals", done.deals, self.total.deals)
                self.audience.shown(f"{worker}: recordings", done.recordings, self.total.recordings)
                if enough(done):
                    return done
                await asyncio.sleep(0.05)

    async def until_all_events_arrived(self) -> None:
        async with asyncio.timeout(DEADLINE):
            while True:
                total = await _number(self.observer, arrivals.TOTAL)
                waiting = await _number(self.observer, arrivals.WAITING)
                self.audience.shown("events published", total - waiting, total)
                if not waiting:
                    return
                await asyncio.sleep(0.05)


async def _without_bucket(observer: AsyncConnection[Any]) -> Harm:
    """What the missing bucket did, once what needs no storage is done.

    A claim counts until it is given back, milliseconds later: an attempt that counts for good is never seen to go.
    """
    async with asyncio.timeout(DEADLINE):
        while True:
            done = await harm(observer)
            if not await _number(observer, recordings.NEED_NO_STORAGE):
                break
            await asyncio.sleep(0.05)
    for _ in range(100):
        if not done.attempts:
            break
        await asyncio.sleep(0.02)
        done = await harm(observer)
    return done


async def _seed(
    observer: AsyncConnection[Any], statements: Sequence[LiteralString], counts: Mapping[str, int]
) -> None:
    parameters = {
        "names": list(counts),
        "counts": list(counts.values()),
        "max_attempts": deals.MAX_ATTEMPTS,
    }
    for statement in statements:
        await observer.execute(statement, parameters if "%(" in statement else None)


async def _number(
    observer: AsyncConnection[Any], query: LiteralString, parameters: Mapping[str, object] | None = None
) -> int:
    ((number,),) = await _rows(observer, query, parameters)
    return int(number)


async def _ids(observer: AsyncConnection[Any]) -> list[UUID]:
    async with observer.cursor(row_factory=scalar_row) as cursor:
        await cursor.execute(deals.IN_FLIGHT)
        return [UUID(str(id_)) for id_ in await cursor.fetchall()]


async def _rows(
    observer: AsyncConnection[Any], query: LiteralString, parameters: Mapping[str, object] | None = None
) -> list[Any]:
    async with observer.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute(query, parameters)
        return await cursor.fetchall()


@asynccontextmanager
async def _consumer_in_flight(url: str, ids: Sequence[UUID]) -> AsyncGenerator[Callable[[], Awaitable[None]]]:
    """Hold rows locked as the consumer of created deals does; the value lets it finish and commit them."""
    settings = load_settings(
        {**chat_settings(url), "MESSENGER_CHAT_PROVISION_RETRY_CONCURRENCY": str(len(ids))}
    )
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
