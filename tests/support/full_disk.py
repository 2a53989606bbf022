"""A disk that can be said to be full, for a PostgreSQL server of one's own.

Needs neither root nor a file system: a library, compiled here and preloaded into the server, answers "No space left on
device" to whatever would make a file grow (Linux, and a C compiler).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, LiteralString

import psycopg
from attrs import frozen
from messenger_jobs.adapters.local.postgres_server import PostgresServer

_SOURCE: Final = Path(__file__).with_name("full_disk.c")
_COMPILERS: Final = ("cc", "gcc", "clang")
_SEGMENTS: Final = 100  # more than can have been made ahead
_ANOTHER_SEGMENT: Final[LiteralString] = "select pg_logical_emit_message(true, '', ''), pg_switch_wal()"

TABLES: Final = "/base/"
"""Where PostgreSQL has tables and indexes: who makes one grow is refused with SQLSTATE 53100, and rolls back."""
LOG: Final = "/pg_wal/"
"""Where it has its write-ahead log: without room there the server panics, and starts again only once there is some.
With the setting ``wal_recycle`` off there is no old segment that it could fall back on."""


@frozen
class FullDisk:
    """Full between `fill` and `free`, for the servers started with its `environment`."""

    folder: Path

    @property
    def environment(self) -> Mapping[str, str]:
        return {"LD_PRELOAD": str(self.folder / "full_disk.so"), "FULL_DISK": str(self._flag)}

    def fill(self, part: str) -> None:
        """From now on no file grows whose path contains `part`."""
        prepared = self._flag.with_suffix(".prepared")
        prepared.write_text(part)
        prepared.chmod(0o644)  # the server is another account's where root started it
        prepared.rename(self._flag)

    def free(self) -> None:
        """There is room again."""
        self._flag.unlink(missing_ok=True)

    @contextmanager
    def full(self, part: str) -> Iterator[None]:
        self.fill(part)
        try:
            yield
        finally:
            self.free()

    @property
    def _flag(self) -> Path:
        return self.folder / "full"


def panic_for_lack_of_room(server: PostgresServer) -> None:
    """Use up the room that is left in the log, and end what is left of the server: one that finds no room to recover in
    ends by itself, or, as PostgreSQL 18 when clients kept asking meanwhile, stays without ever being ready.
    """
    with suppress(psycopg.OperationalError), psycopg.connect(server.url(), autocommit=True) as connection:
        for _ in range(_SEGMENTS):
            connection.execute(_ANOTHER_SEGMENT)
        raise AssertionError("the server finds room where there should be none")
    server.stop("immediate")


def why_no_full_disk() -> str | None:
    """What is missing here, None when nothing is."""
    if not sys.platform.startswith("linux"):
        return "only on Linux can a server be told that its disk is full"
    if _compiler() is None:
        return f"no C compiler here ({', '.join(_COMPILERS)}), which a full disk needs: install gcc and libc6-dev"
    return None


@contextmanager
def new_full_disk() -> Iterator[FullDisk]:
    """One that is not full yet, in a folder of its own. Only where `why_no_full_disk` knows of no reason."""
    compiler = _compiler()
    assert compiler is not None
    with tempfile.TemporaryDirectory(prefix="messenger-test-full-disk-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # for the server's account
        library = folder / "full_disk.so"
        options = ("-shared", "-fPIC", "-O2", "-Wall", "-Werror")
        subprocess.run([compiler, *options, "-o", f"{library}", f"{_SOURCE}", "-ldl"], check=True)
        yield FullDisk(folder)


def _compiler() -> str | None:
    return next((found for name in _COMPILERS if (found := shutil.which(name))), None)
