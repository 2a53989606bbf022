from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from messenger_jobs.adapters.s3.abortable_call import AbortableCall, AbortableHTTPConnection
from urllib3.exceptions import ProtocolError


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(10)
        yield listening


@pytest.fixture
def connection(server: socket.socket) -> Iterator[AbortableHTTPConnection]:
    connection = AbortableHTTPConnection("127.0.0.1", server.getsockname()[1])
    connection.connect()
    yield connection
    connection.close()


def still_works(connection: AbortableHTTPConnection, server: socket.socket) -> bool:
    other_side, _ = server.accept()
    with other_side:
        other_side.settimeout(10)
        try:
            connection.sock.sendall(b"x")
        except BrokenPipeError:
            return False
        return other_side.recv(1) == b"x"


def test_aborted_call_loses_its_connection(
    connection: AbortableHTTPConnection, server: socket.socket
) -> None:
    call = AbortableCall()
    call.take(connection)
    call.abort()
    assert not still_works(connection, server)


def test_call_that_has_ended_does_not_take_the_next_ones_connection_down(
    connection: AbortableHTTPConnection, server: socket.socket
) -> None:
    """The pool may give a connection away before its call has quite ended."""
    first, second = AbortableCall(), AbortableCall()
    first.take(connection)
    second.take(connection)
    first.abort()
    assert still_works(connection, server)


def test_aborted_call_gets_no_further_connection(connection: AbortableHTTPConnection) -> None:
    call = AbortableCall()
    call.abort()
    with pytest.raises(ProtocolError):
        call.take(connection)


def test_call_that_was_aborted_after_its_work_did_no_harm(
    connection: AbortableHTTPConnection, server: socket.socket
) -> None:
    call = AbortableCall()
    call.run(call.take, connection)
    call.abort()
    assert still_works(connection, server)


def test_connection_can_be_closed_twice_and_used_again(
    connection: AbortableHTTPConnection, server: socket.socket
) -> None:
    connection.close()
    connection.close()
    server.accept()[0].close()
    connection.connect()
    assert connection.is_open
    assert still_works(connection, server)
