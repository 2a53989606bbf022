"""A PostgreSQL of its own for a benchmark, durable as in production."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psycopg
from messenger_jobs.adapters.local.postgres_server import PostgresServer
from messenger_jobs.adapters.postgres.migrations import migrate

SQL: Final = Path(__file__).parent / "sql"
SETTINGS: Final = {
    "shared_buffers": "512MB",
    "max_wal_size": "4GB",
    "max_connections": "60",
    "synchronous_commit": "on",
    "shared_preload_libraries": "pg_stat_statements",
}


@contextmanager
def benchmark_server(settings: Mapping[str, str] | None = None) -> Iterator[PostgresServer]:
    """A running server with the schema and the functions of the baselines."""
    with (
        tempfile.TemporaryDirectory(prefix="messenger-jobs-benchmark-") as folder,
        PostgresServer(Path(folder), temporary=True, settings=SETTINGS | dict(settings or {})) as server,
    ):
        migrate(server.url())
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute("create extension pg_stat_statements")
            for file in ("provision_baseline.sql", "candidate_fixtures.sql"):
                connection.execute((SQL / file).read_bytes())
        yield server


def scalar(url: str, query: str, *parameters: object) -> Any:
    """The single value that ``query`` answers with."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(query, parameters or None).fetchone()  # type: ignore[call-overload]  # text of ours
    return None if row is None else row[0]


def execute(url: str, *statements: str) -> None:
    """Run statements, each in a transaction of its own."""
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def pgbench(
    server: PostgresServer, script: str, *, clients: int, transactions: int, port: int | None = None
) -> float:
    """Transactions per second that pgbench reaches with ``clients`` connections and prepared statements."""
    command = [
        str(server.programs / "pgbench"),
        *("--no-vacuum", "--protocol=prepared", f"--client={clients}", "--jobs=1"),
        *(f"--transactions={transactions // clients}", f"--file={SQL / script}"),
        *("--host=127.0.0.1", f"--port={port or server.port}", "--username=postgres", "postgres"),
    ]
    environment = {"PGPASSWORD": server.password}
    output = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if output.returncode != 0:
        raise RuntimeError(f"pgbench failed: {output.stderr.strip().splitlines()[-1]}")
    line = next(line for line in output.stdout.splitlines() if line.startswith("tps = "))
    return float(line.split()[2])
