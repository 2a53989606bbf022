"""A TCP link that is slow and nothing else, in a process of its own: a network's round trip for benchmarks.

    with delayed_link(server_host, server_port, delay=0.000_25) as (host, port): ...

    python -m tests.support.delayed_link --listen-port 0 --upstream 127.0.0.1:5432 --delay-us 250

Every byte arrives `delay` later, each way, as exactly as the machine can: the median round trip is right within some 30
microseconds. It is written down to the system calls because it shares the processors with what is measured: asyncio
takes two to four times the time per message, and its timers, by `epoll`, count whole milliseconds.
"""

from __future__ import annotations

import argparse
import os
import select
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

HOST: Final = "127.0.0.1"

_LEARNING_STEP: Final = 1e-6  # seconds
_CHUNK: Final = 65536  # bytes


class _Side:
    """One side of a connection; `unsent` is what its socket did not take yet."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setblocking(False)
        self.connection = connection
        self.unsent = b""
        self.peer = self
        self.ended = False

    def fileno(self) -> int:
        return self.connection.fileno()


class _Link:
    def __init__(self, listener: socket.socket, upstream: tuple[str, int], delay: float) -> None:
        self._listener = listener
        self._upstream = upstream
        self._delay = delay
        self._lateness = 0.0  # seconds by which waking up is late, in the middle
        self._under_way: deque[tuple[float, _Side, bytes]] = (
            deque()
        )  # when it is due, where, what (nothing: the end)
        self._reading: list[_Side | socket.socket | int] = [listener, sys.stdin.fileno()]
        self._writing: list[_Side] = []

    def run_until_standard_input_ends(self) -> None:
        while True:
            readable, writable, _ = select.select(self._reading, self._writing, (), self._seconds_to_wait())
            self._deliver(woken_by_timer=not readable and not writable)
            for side in writable:
                self._send(side, b"")
            for source in readable:
                if isinstance(source, _Side):
                    self._receive(source)
                elif source is self._listener:
                    self._connect()
                elif not os.read(sys.stdin.fileno(), _CHUNK):
                    return

    def _seconds_to_wait(self) -> float | None:
        if not self._under_way:
            return None
        return max(self._under_way[0][0] - self._lateness - time.monotonic(), 0.0)

    def _deliver(self, *, woken_by_timer: bool) -> None:
        now = time.monotonic()
        while self._under_way and self._under_way[0][0] - self._lateness <= now:
            due, side, data = self._under_way.popleft()
            if woken_by_timer:
                # Small steps end at the median, whatever the odd long pause.
                self._lateness = max(self._lateness + (_LEARNING_STEP if now > due else -_LEARNING_STEP), 0.0)
                woken_by_timer = False
            self._send(side, data)

    def _connect(self) -> None:
        connection, _ = self._listener.accept()
        try:
            client, server = _Side(connection), _Side(socket.create_connection(self._upstream))
        except OSError:
            connection.close()
            return
        client.peer, server.peer = server, client
        self._reading += (client, server)

    def _receive(self, side: _Side) -> None:
        try:
            data = side.connection.recv(_CHUNK)
        except OSError:
            data = b""
        if not data:
            self._reading.remove(side)
        # To wake up for it took about as long as to wake up for a timer: it came in that much earlier.
        self._under_way.append((time.monotonic() - self._lateness + self._delay, side.peer, data))

    def _send(self, side: _Side, data: bytes) -> None:
        """Send as much as the socket takes; no data means the end."""
        side.ended = side.ended or not data
        side.unsent += data
        try:
            side.unsent = side.unsent[side.connection.send(side.unsent) :] if side.unsent else b""
        except BlockingIOError:
            pass
        except OSError:
            side.unsent, side.ended = b"", True
        waits = side in self._writing
        if side.unsent and not waits:
            self._writing.append(side)
        elif not side.unsent and waits:
            self._writing.remove(side)
        if side.ended and not side.unsent:
            self._end(side)

    def _end(self, side: _Side) -> None:
        with suppress(OSError):
            side.connection.shutdown(socket.SHUT_WR)
        if side.peer.ended and not side.peer.unsent:
            for closed in (side, side.peer):
                if closed in self._reading:
                    self._reading.remove(closed)
                closed.connection.close()


@contextmanager
def delayed_link(host: str, port: int, *, delay: float) -> Generator[tuple[str, int]]:
    """Where a link to `host` and `port` begins; `delay` in seconds, each way. It does not outlive this process."""
    command = [
        sys.executable,
        "-m",
        __name__,
        "--upstream",
        f"{host}:{port}",
        "--delay-us",
        f"{delay * 1e6:g}",
    ]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
    ) as process:
        assert process.stdout is not None
        listening_port = process.stdout.readline().strip()
        if not listening_port:
            raise RuntimeError(f"The link to {host}:{port} did not start.")
        try:
            yield HOST, int(listening_port)
        finally:
            process.communicate()  # closes its standard input, at whose end it ends


def main() -> None:
    arguments = argparse.ArgumentParser(description="A TCP link with a delay, until standard input ends.")
    arguments.add_argument("--upstream", required=True, metavar="HOST:PORT")
    arguments.add_argument("--listen-port", type=int, default=0, help="0 takes a free one; it is printed")
    arguments.add_argument("--delay-us", type=float, default=0.0, help="microseconds, each way")
    given = arguments.parse_args()
    host, _, port = given.upstream.rpartition(":")
    with suppress(OSError):
        Path("/proc/self/timerslack_ns").write_text("1")  # else Linux may let timers be 50 microseconds late
    with socket.create_server((HOST, given.listen_port)) as listener:
        sys.stdout.write(f"{listener.getsockname()[1]}\n")
        sys.stdout.flush()
        _Link(listener, (host, int(port)), given.delay_us / 1e6).run_until_standard_input_ends()


if __name__ == "__main__":
    main()
