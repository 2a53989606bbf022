"""The slow link, in its own process, before an upstream that sends back what it gets."""

from __future__ import annotations

import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from tests.support import delayed_link as module
from tests.support.delayed_link import delayed_link
from tests.support.eventually import eventually_here

BOUND = 10.0  # seconds


@pytest.fixture
def echo() -> Iterator[tuple[str, int]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(BOUND)

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                while data := connection.recv(65536):
                    connection.sendall(data)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()
        thread.join()


def round_trip(connection: socket.socket) -> float:
    begun = time.perf_counter()
    connection.sendall(b"x")
    assert connection.recv(1) == b"x"
    return time.perf_counter() - begun


def test_round_trip_takes_twice_the_delay(echo: tuple[str, int]) -> None:
    with delayed_link(*echo, delay=0.002) as address, socket.create_connection(address, BOUND) as connection:
        times = sorted(round_trip(connection) for _ in range(200))
    # Only a loaded machine makes it longer, so the shortest show what the link does.
    assert statistics.median(times) > 0.0038
    assert times[len(times) // 10] < 0.006


def test_much_data_arrives_whole_and_ends(echo: tuple[str, int]) -> None:
    much = bytes(range(256)) * 40_000
    heard = bytearray()
    with delayed_link(*echo, delay=0.001) as address, socket.create_connection(address, BOUND) as connection:

        def send() -> None:
            connection.sendall(much)
            connection.shutdown(socket.SHUT_WR)

        sender = threading.Thread(target=send)
        sender.start()
        while data := connection.recv(65536):
            heard += data
        sender.join()
    assert heard == much


def test_upstream_that_is_down_ends_the_client(unused_tcp_port: int) -> None:
    with (
        delayed_link("127.0.0.1", unused_tcp_port, delay=0.0) as address,
        socket.create_connection(address, BOUND) as connection,
    ):
        assert connection.recv(1) == b""


@pytest.mark.parametrize("name", [module.__name__, "tests.support.tcp_proxy"])
def test_process_ends_when_its_owner_does(unused_tcp_port: int, name: str) -> None:
    owner = (
        "import subprocess, sys, time\n"
        f"link = subprocess.Popen([sys.executable, '-m', '{name}', '--upstream', '127.0.0.1:{unused_tcp_port}'],"
        " stdin=subprocess.PIPE)\n"
        "time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", owner], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        process.kill()

    def refuses() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) != 0

    eventually_here(refuses)
