"""A real PgBouncer in front of a test's database, where its program is installed."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal
from urllib.parse import unquote, urlsplit

import psycopg

from tests.support.eventually import eventually_here

MISSING: Final = "no PgBouncer here: apt-get install pgbouncer"

PoolMode = Literal["session", "transaction", "statement"]


def pgbouncer_program() -> str | None:
    return shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


@contextmanager
def pgbouncer(database_url: str, mode: PoolMode, *, pool_size: int = 5, extra: str = "") -> Iterator[str]:
    """The database's URL through a PgBouncer of its own."""
    program = pgbouncer_program()
    assert program is not None, MISSING
    address = urlsplit(database_url)
    database = address.path.removeprefix("/")
    with TemporaryDirectory() as folder:
        port = _free_port()
        settings = Path(folder) / "pgbouncer.ini"
        password = f" password='{unquote(address.password)}'" if address.password else ""
        settings.write_text(
            f"[databases]\n{database} = host={address.hostname} port={address.port or 5432}"
            f" dbname={database} user={unquote(address.username or 'postgres')}{password}\n"
            f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n"
            f"auth_type = any\npool_mode = {mode}\ndefault_pool_size = {pool_size}\n"
            f"ignore_startup_parameters = extra_float_digits\n{extra}\n"
        )
        settings.chmod(0o644)
        Path(folder).chmod(0o755)
        as_user = ["-u", "nobody"] if os.getuid() == 0 else []
        process = subprocess.Popen(
            [program, *as_user, settings], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        url = address._replace(netloc=f"{address.username or 'postgres'}@127.0.0.1:{port}").geturl()
        try:
            eventually_here(lambda: _answers(url) or process.poll() is not None)
            assert process.poll() is None, "PgBouncer did not start"
            yield url
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(5)
            process.kill()
            process.wait()


def _answers(url: str) -> bool:
    try:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("select 1")
    except psycopg.OperationalError:
        return False
    return True


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port
