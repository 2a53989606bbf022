"""TLS to PostgreSQL: what is verified, and that what only a person can repair does not pass for an outage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Final

import psycopg
import pytest
from messenger_jobs.adapters.postgres.connection_pool import PooledConnections, connection_pool
from messenger_jobs.adapters.postgres.migrations import migrate
from messenger_jobs.adapters.postgres.run_lock import PostgresRunLocks
from messenger_jobs.adapters.system.clock import SystemClock
from messenger_jobs.application.ports.errors import Misconfigured
from psycopg.conninfo import make_conninfo

from tests.operation.tls_server import GUARDED, TlsServer, running_tls_server
from tests.support.processes import JOB, run, run_json

FAULTS: Final[dict[str, tuple[str, Callable[[TlsServer], str]]]] = {
    "unknown authority": ("CERTIFICATE_REFUSED", lambda tls: tls.url(sslrootcert=tls.stranger)),
    "another host": ("HOST_NAME_MISMATCH", lambda tls: tls.url(host="127.0.0.1")),
    "no file": ("CERTIFICATE_FILE_UNUSABLE", lambda tls: tls.url(sslrootcert=Path("/no/such/file"))),
    "no certificate": ("CERTIFICATE_FILE_UNUSABLE", lambda tls: tls.url(sslrootcert=Path("/etc/passwd"))),
    "no common version": ("TLS_FAILED", lambda tls: tls.url(ssl_min_protocol_version="TLSv1.3")),
    "client without one": ("28000", lambda tls: tls.url(database=GUARDED)),
    "no encryption": ("28000", lambda tls: tls.url(sslmode="disable")),
}
"""What can be wrong, the code it has, and the URL it is wrong with."""

fault = pytest.mark.parametrize(("code", "url"), FAULTS.values(), ids=FAULTS)


@pytest.fixture(scope="module")
def tls() -> Iterator[TlsServer]:
    with running_tls_server() as server:
        migrate(server.url())
        yield server


def test_connection_to_the_right_server_is_encrypted(tls: TlsServer) -> None:
    with psycopg.connect(tls.url()) as connection:
        row = connection.execute("select ssl from pg_stat_ssl where pid = pg_backend_pid()").fetchone()

    assert row == (True,)


def test_commands_and_cycles_work_over_it(tls: TlsServer) -> None:
    assert run_json(tls.url(), "run-once", JOB)["end"] == "completed"
    assert run_json(tls.url(), "status")[0]["failed"] == 0


async def ask(url: str) -> None:
    async with (
        connection_pool(url, size=1, checkout_timeout=0.5) as pool,
        PooledConnections(pool).statement() as connection,
    ):
        await connection.execute("select 1")


@fault
async def test_refusal_is_a_misconfiguration_for_the_pool(
    tls: TlsServer, code: str, url: Callable[[TlsServer], str]
) -> None:
    with pytest.raises(Misconfigured) as caught:
        await ask(url(tls))

    assert caught.value.code == code


@fault
async def test_refusal_is_a_misconfiguration_for_the_run_lock(
    tls: TlsServer, code: str, url: Callable[[TlsServer], str]
) -> None:
    locks = PostgresRunLocks(database_url=url(tls), ttl=timedelta(minutes=5), clock=SystemClock())

    with pytest.raises(Misconfigured) as caught:
        async with locks.try_acquire(JOB):
            pass

    assert caught.value.code == code


@pytest.mark.parametrize("command", [("status",), ("worker",), ("migrate",)], ids=" ".join)
@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("unknown authority", "signed by an authority that sslrootcert does not hold"),
        ("another host", "another host name than the URL's"),
    ],
)
def test_command_says_so_in_one_sentence(
    tls: TlsServer, command: tuple[str, ...], name: str, sentence: str
) -> None:
    _, url = FAULTS[name]

    finished = run(url(tls), *command)

    assert finished.returncode == 1
    (line,) = finished.stderr.splitlines()
    assert line.startswith("messenger-jobs: MESSENGER_DATABASE_URL: ")
    assert sentence in line
    for part in (tls.server.password, "localhost", "127.0.0.1", str(tls.stranger), "Traceback"):
        assert part not in line


async def test_server_without_encryption_is_a_misconfiguration(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        if connection.execute("show ssl").fetchone() == ("on",):
            pytest.skip("this server offers encryption")

    with pytest.raises(Misconfigured) as caught:
        await ask(make_conninfo(database_url, sslmode="require"))

    assert caught.value.code == "TLS_NOT_OFFERED"
