"""How fast a cycle of ``chat-provision-retry`` is, as a share of what the server can do at best in the same run.

    python -m benchmarks.chat_provision            # everything, about ten minutes
    python -m benchmarks.chat_provision --quick    # smaller tables, fewer rounds: to see that it works

(a) is pgbench calling one server-side function that does a row's whole work; (b) is pgbench sending the same work as
single statements in a transaction. They alternate with the job, round by round; a ratio is formed within its round.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Sequence
from typing import Final

from attrs import frozen
from messenger_jobs.adapters.local.postgres_server import HOST, PostgresServer
from messenger_jobs.adapters.telemetry.logging import configure_logging
from rich.console import Console
from rich.table import Table

from benchmarks import candidate_buffers, provision_cycle, rivals, statement_count
from benchmarks.server import benchmark_server, execute, pgbench
from tests.support.delayed_link import delayed_link

FUNCTION: Final = "provision_function.pgbench"
STATEMENTS: Final = "provision_statements.pgbench"
ROUND_TRIP: Final = 0.000_5
"""Seconds that the slow link adds to each round trip."""
FLUSH: Final = {"commit_delay": "1000", "commit_siblings": "0"}
"""A disk whose flush takes a millisecond longer."""
IN_USE: Final = 10_000
"""Finished deals in a table in use.

On tables that statistics know as empty, the plans that sessions keep, of foreign keys above all, are sequential scans:
the server takes twice as long for each row, and a client's share of the time looks smaller than it is in production.
"""


@frozen(kw_only=True)
class Ratio:
    """``measured`` over ``limit``, round by round, with the least that is asked of its median."""

    name: str
    measured: Sequence[float]
    limit: Sequence[float]
    at_least: float | None = None

    @property
    def ratios(self) -> list[float]:
        """One ratio a round."""
        return [measured / limit for measured, limit in zip(self.measured, self.limit, strict=True)]

    @property
    def reached(self) -> bool:
        """Whether the median is what is asked."""
        return self.at_least is None or statistics.median(self.ratios) >= self.at_least


@frozen(kw_only=True)
class Load:
    """How much is measured."""

    rows: int
    rounds: int
    scale: float


def fresh(url: str, rows: int, finished: int = 0) -> None:
    """Fill the table with due rows beside finished ones, and leave the server with nothing else to do."""
    execute(url, f"call bench.fill_queue({rows}, {finished})", "analyze", "checkpoint")


def job(url: str, rows: int, concurrency: int, *, through: str | None = None, finished: int = 0) -> float:
    """Rows per second of a cycle over a fresh table, through another address where one is given."""
    fresh(url, rows, finished)
    return provision_cycle.rows_per_second(through or url, rows=rows, concurrency=concurrency)


def limit(
    server: PostgresServer,
    script: str,
    rows: int,
    clients: int,
    *,
    through: int | None = None,
    finished: int = 0,
) -> float:
    """Rows per second that pgbench reaches over a fresh table."""
    fresh(server.url(), rows, finished)
    return pgbench(server, script, clients=clients, transactions=rows, port=through)


def throughput(server: PostgresServer, load: Load) -> list[Ratio]:
    """The job at concurrency 1, 4 and 8 beside (a) and (b)."""
    url, rows = server.url(), load.rows
    measures: dict[str, Callable[[], float]] = {
        **{f"job {c}": lambda c=c: job(url, rows, c) for c in (1, 4, 8)},
        **{f"a {c}": lambda c=c: limit(server, FUNCTION, rows, c) for c in (1, 4, 8)},
        **{f"b {c}": lambda c=c: limit(server, STATEMENTS, rows, c) for c in (1, 4, 8)},
    }
    found: dict[str, list[float]] = {name: [] for name in measures}
    for _ in range(load.rounds):
        for name, measure in measures.items():
            found[name].append(measure())
    return [
        Ratio(name="concurrency 1, of (a) at 1", measured=found["job 1"], limit=found["a 1"], at_least=0.60),
        Ratio(name="concurrency 4, of (a) at 4", measured=found["job 4"], limit=found["a 4"]),
        Ratio(name="concurrency 8, of (a) at 4", measured=found["job 8"], limit=found["a 4"], at_least=0.70),
        Ratio(name="concurrency 8, of (a) at 8", measured=found["job 8"], limit=found["a 8"]),
        *(
            Ratio(name=f"concurrency {c}, of (b) at {c}", measured=found[f"job {c}"], limit=found[f"b {c}"])
            for c in (1, 4, 8)
        ),
    ]


def in_use(server: PostgresServer, load: Load) -> list[Ratio]:
    """The job at 1 and 8 beside (a), on tables in which most deals are finished."""
    url, rows = server.url(), load.rows
    found: dict[str, list[float]] = {name: [] for name in ("job 1", "job 8", "a 1", "a 4")}
    for _ in range(load.rounds):
        for concurrency in (1, 8):
            found[f"job {concurrency}"].append(job(url, rows, concurrency, finished=IN_USE))
        for clients in (1, 4):
            found[f"a {clients}"].append(limit(server, FUNCTION, rows, clients, finished=IN_USE))
    return [
        Ratio(name="tables in use: concurrency 1, of (a) at 1", measured=found["job 1"], limit=found["a 1"]),
        Ratio(name="tables in use: concurrency 8, of (a) at 4", measured=found["job 8"], limit=found["a 4"]),
    ]


def far_away(load: Load) -> Ratio:
    """The job at 8 beside (a) at 8, on a slower disk and behind a slower network."""
    with benchmark_server(FLUSH) as server:
        assert server.port is not None
        with delayed_link(HOST, server.port, delay=ROUND_TRIP / 2) as (_, port):
            through = server.url().replace(f":{server.port}/", f":{port}/")
            measured, best = [], []
            for _ in range(load.rounds):
                measured.append(job(server.url(), load.rows, 8, through=through))
                best.append(limit(server, FUNCTION, load.rows, 8, through=port))
    name = "concurrency 8, of (a) at 8, flush + 1 ms, round trip + 0.5 ms"
    return Ratio(name=name, measured=measured, limit=best, at_least=0.90)


def beside_rivals(server: PostgresServer, load: Load) -> list[Ratio]:
    """The job at 8 beside other queues doing the same work, where they are installed."""
    url, rows = server.url(), load.rows // 2
    found: dict[str, list[float]] = {name: [] for name in ("job", *rivals.RIVALS)}
    for _ in range(load.rounds):
        found["job"].append(job(url, rows, 8))
        for name in rivals.RIVALS:
            fresh(url, rows)
            found[name].append(rivals.rows_per_second(name, url, rows=rows))
    return [
        Ratio(name=f"concurrency 8, of {name} at 8", measured=found["job"], limit=found[name], at_least=3.0)
        for name in rivals.RIVALS
    ]


def logged(server: PostgresServer, load: Load) -> Ratio:
    """What a log line for every row costs."""
    quiet, telling = [], []
    for _ in range(load.rounds):
        quiet.append(job(server.url(), load.rows, 8))
        with open("/dev/null", "w", encoding="utf-8") as nowhere:  # noqa: PTH123 - a stream, not a file
            configure_logging("json", "info", nowhere)
            telling.append(job(server.url(), load.rows, 8))
        configure_logging("json", "warning")
    return Ratio(name="with a log line for every row, of without", measured=telling, limit=quiet)


def main() -> int:
    """Measure, print, and say by the exit code whether every limit was kept."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--quick", action="store_true", help="smaller tables, fewer rounds")
    load = (
        Load(rows=1000, rounds=1, scale=0.01)
        if arguments.parse_args().quick
        else Load(rows=4000, rounds=5, scale=1)
    )
    configure_logging("json", "warning")
    console = Console(width=110)
    with benchmark_server() as server:
        ratios = throughput(server, load)
        ratios += in_use(server, load)
        ratios.append(logged(server, load))
        ratios += beside_rivals(server, load)
        statements = statement_count.measure(server.url(), load.rows)
        fresh(server.url(), load.rows)
        memory = provision_cycle.peak_memory_of_worker(server.url())
        buffers = list(candidate_buffers.measure(server, scale=load.scale))
    ratios.append(far_away(load))

    console.print(_ratio_table(ratios, load))
    console.print(_buffer_table(buffers))
    console.print(
        f"Statements per row: {statements.per_row:.3f} (at most 1.05). Writing commits per row: "
        f"{statements.commits_per_row:.3f} (exactly 1). Round trips per row: {statements.per_row:.3f}.\n"
        f"Statements of a tick that finds nothing due: {statements.per_empty_tick}.\n"
        f"Peak memory of the process: {memory:.0f} MiB."
    )
    kept = (
        all(ratio.reached for ratio in ratios)
        and all(case.per_row <= candidate_buffers.LIMIT for case in buffers)
        and statements.per_row <= 1.05
        and statements.commits_per_row == 1
    )
    console.print("Every limit was kept." if kept else "A limit was missed.")
    return 0 if kept else 1


def _ratio_table(ratios: Sequence[Ratio], load: Load) -> Table:
    table = Table(title=f"Rows per second, {load.rounds} rounds of {load.rows} rows")
    for heading in ("measured", "rows/s", "limit rows/s", "ratio", "least .. most", "asked"):
        table.add_column(heading, justify="left" if heading == "measured" else "right")
    for ratio in ratios:
        asked = "" if ratio.at_least is None else f"{ratio.at_least:.2f} {'✓' if ratio.reached else 'MISSED'}"
        table.add_row(
            ratio.name,
            f"{statistics.median(ratio.measured):.0f}",
            f"{statistics.median(ratio.limit):.0f}",
            f"{statistics.median(ratio.ratios):.2f}",
            f"{min(ratio.ratios):.2f} .. {max(ratio.ratios):.2f}",
            asked,
        )
    return table


def _buffer_table(cases: Sequence[candidate_buffers.Buffers]) -> Table:
    table = Table(title=f"Buffers of a claim of {candidate_buffers.BATCH} candidates")
    for heading in (
        "what stands in the table",
        "claims",
        "rows",
        "buffers per row, dearest claim",
        "at most",
    ):
        table.add_column(heading, justify="left" if heading.startswith("what") else "right")
    for case in cases:
        limit_ = candidate_buffers.LIMIT
        table.add_row(case.case, str(case.claims), str(case.rows), f"{case.per_row:.2f}", f"{limit_:.0f}")
    return table


if __name__ == "__main__":
    raise SystemExit(main())
