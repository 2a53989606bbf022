"""The proxy's faults, between a client and an upstream that answers every message with ``<message>!``."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Self

import pytest

from tests.support.eventually import eventually
from tests.support.tcp_proxy import TcpProxy

BOUND = 10.0  # seconds
A_WHILE = 0.05  # seconds; long enough for local bytes to arrive


class Upstream:
    """Remembers what it received, and how its connections ended."""

    def __init__(self) -> None:
        self.received = b""
        self.ends: list[str] = []
        self.connections = 0
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await eventually(lambda: not self.connections)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(writer)
        try:
            while data := await reader.read(65536):
                self.received += data
                writer.write(data + b"!")
            self.ends.append("end")
        except ConnectionResetError:
            self.ends.append("reset")
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
            self.connections -= 1

    def finish(self) -> None:
        for writer in self._writers:
            writer.close()


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def to(cls, proxy: TcpProxy) -> Self:
        return cls(*await asyncio.open_connection(proxy.host, proxy.port))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()

    def send(self, message: bytes) -> None:
        self._writer.write(message)

    def end(self) -> None:
        self._writer.write_eof()

    async def receive(self, within: float = BOUND) -> bytes:
        return await asyncio.wait_for(self._reader.read(65536), within)

    async def ask(self, message: bytes) -> bytes:
        self.send(message)
        return await self.receive()

    async def hears_nothing(self) -> bool:
        with suppress(TimeoutError):
            await self.receive(within=A_WHILE)
            return False
        return True


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    async with Upstream() as upstream:
        yield upstream


@pytest.fixture
async def proxy(upstream: Upstream) -> AsyncIterator[TcpProxy]:
    async with TcpProxy("127.0.0.1", upstream.port) as proxy:
        yield proxy


@pytest.fixture
async def client(proxy: TcpProxy) -> AsyncIterator[Client]:
    async with await Client.to(proxy) as client:
        yield client


async def test_forwards_both_ways(client: Client, upstream: Upstream) -> None:
    assert await client.ask(b"one") == b"one!"
    assert await client.ask(b"two") == b"two!"
    assert upstream.received == b"onetwo"


async def test_much_data_arrives_whole(client: Client, upstream: Upstream) -> None:
    much = bytes(range(256)) * 40_000
    client.send(much)
    client.end()
    heard = b""
    while data := await client.receive():
        heard += data
    assert upstream.received == much
    assert heard.replace(b"!", b"") == much.replace(b"!", b"")


async def test_end_of_the_client_reaches_the_upstream(
    client: Client, upstream: Upstream, proxy: TcpProxy
) -> None:
    client.send(b"last")
    client.end()
    assert await client.receive() == b"last!"
    assert await client.receive() == b""
    await eventually(lambda: proxy.connections == 0)
    assert upstream.ends == ["end"]


async def test_end_of_the_upstream_reaches_the_client(client: Client, upstream: Upstream) -> None:
    await client.ask(b"one")
    upstream.finish()
    assert await client.receive() == b""


async def test_clients_do_not_disturb_each_other(client: Client, proxy: TcpProxy) -> None:
    async with await Client.to(proxy) as other:
        assert await client.ask(b"one") == b"one!"
        assert await other.ask(b"two") == b"two!"
        assert proxy.connections == 2
    assert await client.ask(b"three") == b"three!"


async def test_upstream_that_is_down_resets_the_client(unused_tcp_port: int) -> None:
    async with TcpProxy("127.0.0.1", unused_tcp_port) as proxy, await Client.to(proxy) as client:
        with pytest.raises(ConnectionResetError):
            await client.receive()


async def test_delay_adds_to_a_round_trip_both_ways(client: Client, proxy: TcpProxy) -> None:
    proxy.delay_both_ways(0.02)
    begun = time.monotonic()
    assert await client.ask(b"one") == b"one!"
    assert time.monotonic() - begun >= 0.04


async def test_delay_keeps_the_order(client: Client, upstream: Upstream, proxy: TcpProxy) -> None:
    proxy.delay_both_ways(0.02)
    await client.ask(b"one")
    client.send(b"two")
    await asyncio.sleep(0)
    proxy.delay_both_ways(0.0)
    client.send(b"three")
    client.end()
    await eventually(lambda: upstream.ends == ["end"])
    assert upstream.received == b"onetwothree"


async def test_cut_resets_both_sides_and_lets_new_clients_in(
    client: Client, upstream: Upstream, proxy: TcpProxy
) -> None:
    await client.ask(b"one")
    proxy.cut()
    with pytest.raises(ConnectionResetError):
        await client.receive()
    await eventually(lambda: upstream.ends == ["reset"])
    async with await Client.to(proxy) as another:
        assert await another.ask(b"two") == b"two!"


async def test_refuse_lets_nobody_new_in_until_accept(client: Client, proxy: TcpProxy) -> None:
    await client.ask(b"one")
    port = proxy.port
    proxy.refuse()
    with pytest.raises(ConnectionRefusedError):
        await Client.to(proxy)
    assert await client.ask(b"two") == b"two!"
    await proxy.accept()
    assert proxy.port == port
    async with await Client.to(proxy) as another:
        assert await another.ask(b"three") == b"three!"


async def test_refuse_and_accept_can_be_repeated(proxy: TcpProxy) -> None:
    for _ in range(3):
        proxy.refuse()
        proxy.refuse()
        await proxy.accept()
        await proxy.accept()
    async with await Client.to(proxy) as client:
        assert await client.ask(b"one") == b"one!"


async def test_stall_holds_bytes_until_resume(client: Client, upstream: Upstream, proxy: TcpProxy) -> None:
    await client.ask(b"one")
    proxy.stall()
    client.send(b"two")
    assert await client.hears_nothing()
    assert upstream.received == b"one"
    proxy.resume()
    assert await client.receive() == b"two!"


async def test_stall_of_one_direction_lets_requests_through(
    client: Client, upstream: Upstream, proxy: TcpProxy
) -> None:
    proxy.stall("to_client")
    client.send(b"one")
    await eventually(lambda: upstream.received == b"one")
    assert await client.hears_nothing()
    proxy.resume()
    assert await client.receive() == b"one!"


async def test_stall_hides_that_the_other_side_has_gone(
    client: Client, upstream: Upstream, proxy: TcpProxy
) -> None:
    await client.ask(b"one")
    proxy.stall()
    upstream.finish()
    assert await client.hears_nothing()
    proxy.resume()
    assert await client.receive() == b""


async def test_half_close_ends_one_side_only(client: Client, upstream: Upstream, proxy: TcpProxy) -> None:
    await client.ask(b"one")
    proxy.half_close("client")
    assert await client.receive() == b""
    client.send(b"two")
    await eventually(lambda: upstream.received == b"onetwo")
    assert upstream.ends == []


async def test_lost_answer_cuts_the_client_after_the_upstream_has_done_its_work(
    client: Client, upstream: Upstream, proxy: TcpProxy
) -> None:
    lost = proxy.lose_answer(to=b"commit")
    assert await client.ask(b"insert") == b"insert!"
    client.send(b"commit")
    with pytest.raises(ConnectionResetError):
        await client.receive()
    assert lost.answered.is_set()
    assert upstream.received == b"insertcommit"
    await eventually(lambda: upstream.ends == ["end"])
    async with await Client.to(proxy) as another:
        assert await another.ask(b"commit") == b"commit!"


async def test_answer_to_the_nth_message_is_lost(client: Client, upstream: Upstream, proxy: TcpProxy) -> None:
    proxy.lose_answer(nth=3)
    assert await client.ask(b"one") == b"one!"
    assert await client.ask(b"two") == b"two!"
    client.send(b"three")
    with pytest.raises(ConnectionResetError):
        await client.receive()
    assert upstream.received == b"onetwothree"


async def test_answer_lost_in_silence_leaves_the_client_waiting(
    client: Client, upstream: Upstream, proxy: TcpProxy
) -> None:
    lost = proxy.lose_answer(then="silence")
    client.send(b"one")
    await asyncio.wait_for(lost.answered.wait(), BOUND)
    assert await client.hears_nothing()
    assert upstream.ends == []


async def test_closing_the_proxy_leaves_nothing_behind(upstream: Upstream) -> None:
    before = asyncio.all_tasks()
    async with TcpProxy("127.0.0.1", upstream.port) as proxy, await Client.to(proxy) as client:
        await client.ask(b"one")
        proxy.stall()
        client.send(b"two")
    await eventually(lambda: upstream.connections == 0)
    assert proxy.connections == 0
    await eventually(lambda: asyncio.all_tasks() == before)
    with pytest.raises(ConnectionRefusedError):
        await Client.to(proxy)
