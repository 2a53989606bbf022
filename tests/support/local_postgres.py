"""The PostgreSQL programs on this machine, and throw-away servers that run them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from attrs import frozen
from messenger_jobs.adapters.local.postgres_programs import embedded_programs
from messenger_jobs.adapters.local.postgres_server import PostgresServer
from messenger_jobs.adapters.local.postgres_server_error import PostgresServerError

SUPPORTED_MAJORS: Final = range(14, 19)


@frozen
class PostgresPrograms:
    label: str
    folder: Path


def programs_of_the_wheel() -> list[PostgresPrograms]:
    try:
        return [PostgresPrograms("18-embedded", embedded_programs())]
    except PostgresServerError:
        return []


def programs_of_the_system() -> list[PostgresPrograms]:
    """What is in Debian's and Red Hat's folders, newest first."""
    folders = [*Path("/usr/lib/postgresql").glob("*/bin"), *Path("/usr").glob("pgsql-*/bin")]
    by_major = {
        folder.parent.name.removeprefix("pgsql-"): folder
        for folder in folders
        if (folder / "initdb").exists()
    }
    return [
        PostgresPrograms(f"{major}-system", by_major[str(major)])
        for major in reversed(SUPPORTED_MAJORS)
        if str(major) in by_major
    ]


@contextmanager
def new_postgres_folder() -> Iterator[Path]:
    """Directly in the temporary folder: pytest's own is closed to the account that stands in for root."""
    with tempfile.TemporaryDirectory(prefix="messenger-test-postgres-") as folder:
        yield Path(folder)


@contextmanager
def running_server(
    folder: Path,
    programs: PostgresPrograms,
    settings: Mapping[str, str],
    environment: Mapping[str, str] | None = None,
) -> Iterator[PostgresServer]:
    server = PostgresServer(
        folder, programs.folder, settings=settings, environment=environment or {}, temporary=True
    )
    server.start()
    try:
        yield server
    finally:
        server.stop("immediate")  # its data is not needed any more
