"""HTTP requests in a thread that another thread can end at any moment."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final, ParamSpec, TypeVar

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ProtocolError

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")

_running: Final = threading.local()
_ownership: Final = threading.Lock()  # of connections by calls; held for a few instructions


class AbortableCall:
    """The requests of one call, made in one thread.

    A read time-out starts anew with every byte, so a server that drips would hold the thread for ever: `abort` shuts
    the connection down under it. Only a name's resolution and the setting up of a TCP connection still go on for as
    long as the system and the connect time-out let them.
    """

    def __init__(self) -> None:
        self.connected = False
        self._aborted = False
        self._connection: AbortableHTTPConnection | None = None

    def run(
        self,
        work: Callable[_Arguments, _Result],
        *arguments: _Arguments.args,
        **keywords: _Arguments.kwargs,
    ) -> _Result:
        """Do the work; its requests belong to this call."""
        _running.call = self
        try:
            return work(*arguments, **keywords)
        finally:
            _running.call = None
            with _ownership:
                self._connection = None  # the next call's, perhaps

    def abort(self) -> None:
        """Let the work fail soon. Called from any thread; does nothing after the work has ended."""
        with _ownership:
            self._aborted = True
            if self._connection is not None and self._connection.owner is self:
                self._connection.break_off()

    def take(self, connection: AbortableHTTPConnection) -> None:
        """For connections: make it this call's. Raises `ProtocolError` once the call is aborted."""
        with _ownership:
            if self._aborted:
                raise ProtocolError("the call was aborted")
            self._connection = connection
            connection.owner = self
            self.connected = self.connected or connection.is_open


class AbortableHTTPConnection(HTTPConnection):
    """Belongs to the call that used it last."""

    owner: AbortableCall | None = None
    _handle: socket.socket | None = None

    @property
    def is_open(self) -> bool:
        """Whether the other side accepted it."""
        return self._handle is not None

    def break_off(self) -> None:
        """End whatever waits for it, also in the middle of a TLS handshake."""
        if self._handle is not None:
            with suppress(OSError):  # the other side was first
                self._handle.shutdown(socket.SHUT_RDWR)

    def putrequest(
        self, method: str, url: str, skip_host: bool = False, skip_accept_encoding: bool = False
    ) -> None:
        """The start of every request, also on a connection from the pool."""
        self._belong_to_running_call()
        super().putrequest(method, url, skip_host, skip_accept_encoding)

    def close(self) -> None:
        """As of any connection."""
        super().close()
        if self._handle is not None:
            self._handle.close()
            self._handle = None

    def _new_conn(self) -> socket.socket:
        self._belong_to_running_call()
        connected = super()._new_conn()
        # A second handle on the same connection: TLS replaces the first one while it shakes hands.
        self._handle = connected.dup()
        try:
            self._belong_to_running_call()
        except ProtocolError:
            connected.close()
            raise
        return connected

    def _belong_to_running_call(self) -> None:
        call: AbortableCall | None = getattr(_running, "call", None)
        if call is not None:
            call.take(self)


class AbortableHTTPSConnection(AbortableHTTPConnection, HTTPSConnection):
    """The same with TLS."""


class _HTTPPool(urllib3.HTTPConnectionPool):
    ConnectionCls = AbortableHTTPConnection  # pyright: ignore[reportAssignmentType]  # urllib3's own classes do not fit either


class _HTTPSPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = AbortableHTTPSConnection  # pyright: ignore[reportAssignmentType]  # urllib3's own classes do not fit either


def abortable_pool(
    *, connections: int, connect_timeout: float, read_timeout: float, ca_file: str
) -> urllib3.PoolManager:
    """Connections for `AbortableCall`s; times in seconds. No retries, certificates are verified against `ca_file`."""
    pool = urllib3.PoolManager(
        maxsize=connections,
        timeout=urllib3.Timeout(connect=connect_timeout, read=read_timeout),
        retries=False,
        cert_reqs="CERT_REQUIRED",
        ca_certs=ca_file,
    )
    pool.pool_classes_by_scheme = {"http": _HTTPPool, "https": _HTTPSPool}
    return pool
