"""Small HTTP servers on this machine that misbehave, in the event loop of the test that uses them.

That loop serves them only while nobody blocks it: a lookup that did would wait for itself for ever.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

from attrs import define, field

HOST: Final = "127.0.0.1"

Behaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""What is done to a connection from which a request, or what passes for one, may come."""


@define(eq=False)
class HttpServer:
    port: int
    connections: set[asyncio.Task[None]] = field(factory=set["asyncio.Task[None]"])
    served: int = 0
    """How many connections there have been."""

    @property
    def endpoint(self) -> str:
        return f"{HOST}:{self.port}"


@asynccontextmanager
async def http_server(behaviour: Behaviour, tls: ssl.SSLContext | None = None) -> AsyncGenerator[HttpServer]:
    """A server; at the end whoever is still connected is disconnected."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        server.served += 1
        server.connections.add(task)
        try:
            # Nobody but us cancels, and asyncio reports a connection's task that ends as cancelled.
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await behaviour(reader, writer)
        finally:
            server.connections.discard(task)
            writer.close()

    listening = await asyncio.start_server(serve, HOST, 0, ssl=tls)
    server = HttpServer(listening.sockets[0].getsockname()[1])
    try:
        yield server
    finally:
        listening.close()
        connections = [*server.connections]
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections)


def answering(*answers: bytes) -> Behaviour:
    """Give these answers to the requests of a connection in turn, then the last one for ever."""

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = 0
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(answers[min(number, len(answers) - 1)])
            await writer.drain()
            number += 1

    return behave


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Take the connection and never say anything, until the other side leaves."""
    del writer
    while await reader.read(1024):
        pass


def serving(content: bytes, content_type: str, asked: list[tuple[int, int]]) -> Behaviour:
    """Be S3 with one object under every key; `asked` gets the first and last byte of every range asked for."""

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while request := await reader.readuntil(b"\r\n\r\n"):
            wanted = re.search(rb"range: bytes=(\d+)-(\d+)", request, re.IGNORECASE)
            assert wanted
            first, last = int(wanted[1]), min(int(wanted[2]), len(content) - 1)
            asked.append((first, last))
            described = {
                "content_type": content_type,
                "content_range": f"bytes {first}-{last}/{len(content)}",
            }
            writer.write(answer(206, content[first : last + 1], etag='"1"', **described))
            await writer.drain()

    return behave


def dripping(answer: bytes, *, seconds: float) -> Behaviour:
    """Give the answer a byte at a time, as long as somebody takes it."""

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        leaving = asyncio.ensure_future(reader.readuntil(b"never"))
        for byte in answer:
            writer.write(bytes([byte]))
            await asyncio.wait({leaving}, timeout=seconds)
            if leaving.done():
                break
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)

    return behave


def answer(status: int, body: bytes = b"", **headers: str) -> bytes:
    """An HTTP answer; underscores in the headers' names stand for hyphens."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"{name}: {value}" for name, value in {"content-length": f"{len(body)}", **given}.items()]
    return "\r\n".join([f"HTTP/1.1 {status} Whatever", *lines, "", ""]).encode() + body


def s3_refusal(status: int, code: str) -> bytes:
    """As S3 refuses a GET."""
    body = f"<Error><Code>{code}</Code><Message>https://secret.example/key</Message></Error>".encode()
    return answer(status, body, content_type="application/xml")
