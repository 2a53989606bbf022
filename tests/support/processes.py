"""The command ``messenger-jobs`` as processes of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from tests.support.eventually import eventually_here

COMMAND: Final = (sys.executable, "-m", "messenger_jobs")
JOB: Final = "chat-provision-retry"
PREFIX: Final = "MESSENGER_CHAT_PROVISION_RETRY_"

Settings = Mapping[str, object]


def environment(database_url: str, settings: Settings) -> dict[str, str]:
    """Of a command's process; nothing of ours comes from this one's."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("MESSENGER_")}
    given = {
        name if name.startswith("MESSENGER_") else PREFIX + name: str(value)
        for name, value in settings.items()
    }
    return {**others, "MESSENGER_DATABASE_URL": database_url, "MESSENGER_LOG_FORMAT": "json", **given}


def run(database_url: str, *arguments: str, **settings: object) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; settings without a prefix are those of the chat job."""
    return subprocess.run(
        [*COMMAND, *arguments],
        env=environment(database_url, settings),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def run_json(database_url: str, *arguments: str, **settings: object) -> Any:
    finished = run(database_url, *arguments, "--json", **settings)
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout)


class WorkerProcess:
    """A running worker, with the log lines that it has written so far."""

    def __init__(self, database_url: str, jobs: Sequence[str], settings: Settings) -> None:
        self.lines: list[dict[str, Any]] = []
        self._process = subprocess.Popen(
            [*COMMAND, "worker", *(argument for job in jobs for argument in ("--job", job))],
            env=environment(database_url, settings),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.lines.append(json.loads(line) if line.startswith("{") else {"event": line.rstrip()})

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def events(self) -> list[str]:
        return [line["event"] for line in self.lines]

    def logs(self, event: str, *, times: int = 1, within: float = 20) -> None:
        """Wait until the worker has logged this."""
        eventually_here(
            lambda: self.events.count(event) >= times or self._process.poll() is not None, within=within
        )
        assert self.events.count(event) >= times, self.lines

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def exit_code(self, *, within: float = 20) -> int:
        """Wait until the worker has ended."""
        code = self._process.wait(within)
        self._reader.join(within)
        return code

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stderr is not None
        self._process.stderr.close()


@contextmanager
def worker(database_url: str, *jobs: str, **settings: object) -> Iterator[WorkerProcess]:
    """A worker of these jobs, or of all, that is killed at the end, if it has not ended by then."""
    process = WorkerProcess(database_url, jobs, settings)
    try:
        yield process
    finally:
        process.end()
