"""A database behind a TCP proxy with switchable faults."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from tests.support.tcp_proxy import TcpProxy


@asynccontextmanager
async def through_proxy(database_url: str) -> AsyncGenerator[tuple[TcpProxy, str]]:
    """The proxy, and the database's URL through it."""
    address = urlsplit(database_url)
    async with TcpProxy(address.hostname or "127.0.0.1", address.port or 5432) as proxy:
        credentials = address.netloc.rpartition("@")[0]
        yield proxy, address._replace(netloc=f"{credentials}@{proxy.host}:{proxy.port}").geturl()
