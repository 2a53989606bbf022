"""``/livez``, ``/readyz`` and ``/metrics`` for probes and for Prometheus."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from http import HTTPStatus
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Final, cast
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from attrs import frozen
from prometheus_client import CollectorRegistry, make_wsgi_app  # pyright: ignore[reportUnknownVariableType]

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

ANSWER_WITHIN: Final = 2.0
"""Seconds that a probe or a scrape waits for the database."""

_TEXT: Final = ("Content-Type", "text/plain; charset=utf-8")


class CannotListen(Exception):
    """The port is taken or not allowed."""


@frozen(kw_only=True)
class Probes:
    """What the server asks.

    ``complaints`` says why this process should be restarted, if it should. ``ready`` raises when the database cannot
    be used; ``measure`` brings the gauges up to date. These two run on the event loop. ``unmeasured`` is called when
    the gauges could not be brought up to date.
    """

    complaints: Callable[[], list[str]]
    ready: Callable[[], Awaitable[None]]
    measure: Callable[[], Awaitable[None]]
    unmeasured: Callable[[], None]
    registry: CollectorRegistry


@asynccontextmanager
async def serving_http(port: int, probes: Probes) -> AsyncGenerator[int]:
    """Serve on all addresses while the context is open; yields the port, a free one for 0.

    Requests are answered by threads, so that a probe gets an answer when the event loop hangs. Raises `CannotListen`.
    """
    application = _Application(probes, asyncio.get_running_loop())
    try:
        server = await asyncio.to_thread(
            make_server,
            "0.0.0.0",  # noqa: S104 - probes and scrapes come from outside
            port,
            application,
            _Server,
            _QuietHandler,
        )
    except OSError as error:
        raise CannotListen(f"cannot listen on port {port}: {error.strerror}") from error
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), name="http", daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        await asyncio.to_thread(server.shutdown)
        server.server_close()


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _QuietHandler(WSGIRequestHandler):
    timeout = 10.0  # seconds for a client that says nothing

    def log_message(self, format: str, *args: object) -> None:
        """Probes come every few seconds: not worth a line."""


class _Application:
    def __init__(self, probes: Probes, loop: asyncio.AbstractEventLoop) -> None:
        self._probes = probes
        self._loop = loop
        # prometheus-client leaves the types of what it makes open.
        self._metrics = cast(
            "WSGIApplication",
            make_wsgi_app(probes.registry),  # pyright: ignore[reportUnknownMemberType]
        )

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        match environ["PATH_INFO"]:
            case "/metrics":
                if not self._on_the_loop(self._probes.measure):
                    self._probes.unmeasured()
                return self._metrics(environ, start_response)
            case "/livez":
                problems = self._probes.complaints()
            case "/readyz":
                problems = [] if self._on_the_loop(self._probes.ready) else ["the database cannot be used"]
            case _:
                start_response("404 Not Found", [_TEXT])
                return [b"try /livez, /readyz or /metrics\n"]
        status = HTTPStatus.SERVICE_UNAVAILABLE if problems else HTTPStatus.OK
        start_response(f"{status.value} {status.phrase}", [_TEXT])
        return ["\n".join(problems or ["ok"]).encode() + b"\n"]

    def _on_the_loop(self, question: Callable[[], Awaitable[None]]) -> bool:
        """Whether the question was answered, in time and without an error."""
        asking = _within(ANSWER_WITHIN, question)
        try:
            answer = asyncio.run_coroutine_threadsafe(asking, self._loop)
        except RuntimeError:  # the loop is closed
            asking.close()
            return False
        try:
            answer.result(2 * ANSWER_WITHIN)  # a loop that hangs cannot enforce the bound itself
        except Exception:  # noqa: BLE001 - whatever it is, the answer is no
            answer.cancel()
            return False
        return True


async def _within(seconds: float, question: Callable[[], Awaitable[None]]) -> None:
    async with asyncio.timeout(seconds):
        await question()
