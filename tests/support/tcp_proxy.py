"""A TCP proxy with switchable faults, in the event loop of the test that uses it.

    async with TcpProxy(server_host, server_port) as proxy:
        ...  # connect to proxy.host, proxy.port
        lost = proxy.lose_answer(to=b"COMMIT")
        ...  # commit: it fails, and yet it happens
        await lost.answered.wait()

Its delays are good to about a millisecond; for exact ones, without faults, see `tests.support.delayed_link`.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from contextlib import suppress
from enum import Enum, auto
from typing import Final, Literal, Self, cast

from attrs import define, field

HOST: Final = "127.0.0.1"

Direction = Literal["to_upstream", "to_client"]

_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)  # SO_LINGER


class _Signal(Enum):
    END = auto()
    RESET = auto()


@define(eq=False)
class LostAnswer:
    """An answer that will not arrive; `answered` is set when the upstream gave it, and so did what it was asked."""

    to: bytes
    nth: int
    then: Literal["cut", "silence"]
    answered: asyncio.Event = field(factory=asyncio.Event, init=False)


class _End(asyncio.Protocol):
    """One end of a proxied connection: what comes in here goes out at its peer, in order, when it is due."""

    def __init__(self, proxy: TcpProxy, direction: Direction) -> None:
        self.direction: Final[Direction] = direction
        self.peer: _End = self
        self.closed = asyncio.Event()
        self._proxy = proxy
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._queue: deque[tuple[float, bytes | _Signal]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._end_came_out = False
        self._lost: LostAnswer | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.peer.forward()

    def data_received(self, data: bytes) -> None:
        if self._lost is None:
            self._enqueue(data)
            return
        if self._lost.then == "cut" and not self._lost.answered.is_set():
            self.peer.reset()
            self.end()  # no reset here: the upstream shall finish what it was asked
        self._lost.answered.set()

    def eof_received(self) -> bool:
        self._enqueue(_Signal.END)
        return True  # the other direction stays open

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set()
        if exc is not None:
            self._enqueue(_Signal.RESET)

    def pause_writing(self) -> None:
        if self.peer._transport is not None:
            self.peer._transport.pause_reading()

    def resume_writing(self) -> None:
        if self.peer._transport is not None:
            self.peer._transport.resume_reading()

    def forward(self) -> None:
        """Send out at the peer what is due, and come back for the rest."""
        if self._timer is not None or self.peer._transport is None:
            return
        while self._queue and self.direction not in self._proxy.stalled:
            due, item = self._queue[0]
            if due > self._loop.time():
                self._timer = self._loop.call_at(due, self._on_time)
                return
            self._queue.popleft()
            if item is _Signal.RESET:
                self.peer.reset()
            elif item is _Signal.END:
                self.peer.end()
            else:
                if self.direction == "to_upstream":
                    self.peer._lost = self._proxy.answer_to_lose(item) or self.peer._lost
                self.peer.send(item)

    def send(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing() and not self._end_came_out:
            self._transport.write(data)

    def end(self) -> None:
        """Say that nothing more comes out here; when that holds for both ends, close them."""
        if self._transport is None or self._end_came_out:
            return
        self._end_came_out = True
        if not self._transport.is_closing():
            with suppress(OSError):  # has gone meanwhile
                self._transport.write_eof()
        if self.peer._end_came_out or self.peer.closed.is_set():
            for end in (self, self.peer):
                if end._transport is not None:
                    end._transport.close()

    def reset(self) -> None:
        """Break off, as a connection whose other side crashed."""
        if self._transport is not None:
            connection: socket.socket = self._transport.get_extra_info("socket")
            with suppress(OSError):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            self._transport.abort()

    def _enqueue(self, item: bytes | _Signal) -> None:
        self._queue.append((self._loop.time() + self._proxy.delay[self.direction], item))
        self.forward()

    def _on_time(self) -> None:
        self._timer = None
        self.forward()


@define(eq=False)
class TcpProxy:
    """Forwards connections to one upstream; used by `async with`, inside of which it listens.

    When the upstream refuses a connection, the client's is reset: a proxy has accepted it already.
    """

    upstream_host: str
    upstream_port: int
    listen_port: int = field(default=0, kw_only=True)
    delay: dict[Direction, float] = field(
        factory=lambda: {"to_upstream": 0.0, "to_client": 0.0}, kw_only=True
    )
    """Seconds that bytes spend on the way; can be changed at any time, and holds for what comes in from then on."""
    stalled: set[Direction] = field(factory=set, init=False)
    _listening: asyncio.Server | None = field(default=None, init=False)
    _reserved: socket.socket | None = field(default=None, init=False)
    _connections: set[tuple[_End, _End]] = field(factory=set, init=False)
    _tasks: set[asyncio.Task[None]] = field(factory=set, init=False)
    _lost_answers: list[LostAnswer] = field(factory=list, init=False)

    @property
    def host(self) -> str:
        """Where it listens."""
        return HOST

    @property
    def port(self) -> int:
        """Where it listens; stays the same through `refuse` and `accept`."""
        return self.listen_port

    @property
    def connections(self) -> int:
        """How many clients are connected now."""
        return len(self._connections)

    async def __aenter__(self) -> Self:
        self._reserve_port()
        await self.accept()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.refuse()
        if self._reserved is not None:
            self._reserved.close()
        self.stalled.clear()
        self.cut()
        await asyncio.gather(*self._tasks)

    def delay_both_ways(self, seconds: float) -> None:
        """A round trip takes twice this longer."""
        self.delay = {"to_upstream": seconds, "to_client": seconds}

    def cut(self) -> None:
        """Reset every connection, on both sides."""
        for connection in self._connections:
            for end in connection:
                end.reset()

    def refuse(self) -> None:
        """Refuse new connections, as a host on which nothing listens; the connections that there are go on."""
        if self._listening is not None:
            self._listening.close()
            self._listening = None
            self._reserve_port()  # else the system could give the port to somebody else

    async def accept(self) -> None:
        """Take new connections again."""
        if self._reserved is not None:
            loop = asyncio.get_running_loop()
            self._listening = await loop.create_server(self._accepted, sock=self._reserved)
            self._reserved = None

    def stall(self, *directions: Direction) -> None:
        """Take bytes and forward none, in both directions unless some are named; also of new connections."""
        self.stalled.update(directions or ("to_upstream", "to_client"))

    def resume(self) -> None:
        """Forward again, first what has gathered meanwhile."""
        self.stalled.clear()
        for connection in self._connections:
            for end in connection:
                end.forward()

    def half_close(self, side: Literal["upstream", "client"]) -> None:
        """Tell one side of every connection that the other has ended, which it has not."""
        for client, upstream in self._connections:
            (client if side == "client" else upstream).end()

    def lose_answer(
        self, *, to: bytes = b"", nth: int = 1, then: Literal["cut", "silence"] = "cut"
    ) -> LostAnswer:
        """Forward the `nth` next message of a client that contains `to`, drop the upstream's answer, and

        * ``cut``: reset the client's connection; the upstream sees a client that leaves politely;
        * ``silence``: let nothing more through to the client.

        A message is what arrives in one piece: meant for clients that send a request and wait for its answer.
        """
        lost = LostAnswer(to, nth, then)
        self._lost_answers.append(lost)
        return lost

    def answer_to_lose(self, message: bytes) -> LostAnswer | None:
        """For the proxy's own use: count a message, and say whether its answer is to be lost."""
        for lost in self._lost_answers:
            if lost.to in message:
                lost.nth -= 1
                if lost.nth == 0:
                    self._lost_answers.remove(lost)
                    return lost
        return None

    def _reserve_port(self) -> None:
        self._reserved = socket.socket()
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._reserved.bind((HOST, self.listen_port))
        self.listen_port = self._reserved.getsockname()[1]

    def _accepted(self) -> _End:
        client, upstream = _End(self, "to_upstream"), _End(self, "to_client")
        client.peer, upstream.peer = upstream, client
        task = asyncio.create_task(self._serve(client, upstream))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return client

    async def _serve(self, client: _End, upstream: _End) -> None:
        self._connections.add((client, upstream))
        try:
            loop = asyncio.get_running_loop()
            await loop.create_connection(lambda: upstream, self.upstream_host, self.upstream_port)
            await upstream.closed.wait()
        except OSError:
            client.reset()
        finally:
            await client.closed.wait()
            self._connections.discard((client, upstream))


if __name__ == "__main__":
    # As a process of its own, only the exact delay is of use.
    from tests.support.delayed_link import main

    main()
