"""The same provisioning work, done as tasks of well-known job queues on the same server.

Each task does its row in the cheapest way there is, one call of the server-side function: what is compared is what the
queue adds. Enqueueing is not counted. Installed by the extra ``bench``.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

import psycopg
from psycopg_pool import AsyncConnectionPool

from benchmarks.provision_cycle import run

CONCURRENCY: Final = 8
_WORK: Final = "select bench.provision_next()"


def _pool(url: str) -> AsyncConnectionPool:
    return AsyncConnectionPool(
        url, min_size=CONCURRENCY, max_size=CONCURRENCY, open=False, kwargs={"autocommit": True}
    )


async def _pgqueuer(url: str, rows: int) -> float:
    from pgqueuer import PgQueuer
    from pgqueuer.queries import Queries
    from pgqueuer.types import QueueExecutionMode

    async with (
        await psycopg.AsyncConnection.connect(url, autocommit=True) as connection,
        _pool(url) as pool,
    ):
        queue = PgQueuer.from_psycopg_connection(connection)
        queries = Queries(queue.connection)
        if not await queries.schema_is_installed():
            await queries.install()

        @queue.entrypoint("provision")
        async def provision(job: object) -> None:
            del job
            async with pool.connection() as worker:
                await worker.execute(_WORK, prepare=True)

        await queries.enqueue(["provision"] * rows, [None] * rows, [0] * rows)
        started = time.perf_counter()
        await queue.qm.run(batch_size=100, mode=QueueExecutionMode.drain, max_concurrent_tasks=200)
        return time.perf_counter() - started


async def _procrastinate(url: str, rows: int) -> float:
    from procrastinate import App, PsycopgConnector

    app = App(connector=PsycopgConnector(conninfo=url, min_size=CONCURRENCY, max_size=CONCURRENCY + 2))
    async with app.open_async(), _pool(url) as pool:

        @app.task(name="provision")
        async def provision() -> None:
            async with pool.connection() as worker:
                await worker.execute(_WORK, prepare=True)

        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            found = await (await connection.execute("select to_regclass('procrastinate_jobs')")).fetchone()
        if found == (None,):
            await app.schema_manager.apply_schema_async()
        await provision.batch_defer_async(*({} for _ in range(rows)))
        started = time.perf_counter()
        await app.run_worker_async(
            wait=False, concurrency=CONCURRENCY, delete_jobs="always", install_signal_handlers=False
        )
        return time.perf_counter() - started


def rows_per_second(name: str, url: str, *, rows: int) -> float:
    """Provisions per second of the rival ``name`` over a queue of ``rows``. Raises `ImportError` without the extra."""
    logging.getLogger(name).setLevel(logging.ERROR)
    return rows / run(RIVALS[name](url, rows))


RIVALS: Final[dict[str, Callable[[str, int], Coroutine[Any, Any, float]]]] = {
    "pgqueuer": _pgqueuer,
    "procrastinate": _procrastinate,
}
