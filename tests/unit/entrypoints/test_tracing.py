"""Traces go where the environment says, and nowhere else."""

from __future__ import annotations

import asyncio
import logging
import sys

import pytest
from messenger_jobs.application.cycle_report import Cycle
from messenger_jobs.application.ports.tracing import UNTRACED
from messenger_jobs.entrypoints.settings import InvalidSettings
from messenger_jobs.entrypoints.tracing import tracer_provider, tracing_on

from tests.support.builders import NOW, some_id
from tests.support.captured_logs import captured_logs
from tests.support.command_line import CommandLine
from tests.support.http_servers import http_server

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
TRACES_ENDPOINT = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
CYCLE = Cycle(job="chat-provision-retry", run_id=some_id(1), as_of=NOW)


@pytest.mark.parametrize(
    "variables", [{}, {ENDPOINT: " "}, {ENDPOINT: "http://collector:4318", "OTEL_SDK_DISABLED": "True"}]
)
async def test_without_an_endpoint_nothing_is_traced(variables: dict[str, str]) -> None:
    async with tracer_provider(variables) as provider:
        assert provider is None
        assert tracing_on(provider) is UNTRACED


@pytest.mark.parametrize("name", [ENDPOINT, TRACES_ENDPOINT])
@pytest.mark.parametrize(
    "missing", ["opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http.trace_exporter"]
)
def test_missing_extra_is_told_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, name: str, missing: str
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.setenv(name, "http://collector:4318")

    result = CommandLine().run("status")

    assert result.exit_code == 2
    assert (
        result.stderr
        == f"messenger-jobs: {name} needs the extra otel: pip install 'pin-messenger-jobs[otel]'\n"
    )


async def test_missing_extra_is_a_wrong_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)

    with pytest.raises(InvalidSettings):
        async with tracer_provider({ENDPOINT: "http://collector:4318"}):
            pass


async def test_spans_are_sent_when_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[bytes] = []

    async def collect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        (length,) = [
            line.split()[1] for line in head.lower().splitlines() if line.startswith(b"content-length")
        ]
        await reader.readexactly(int(length))
        requests.append(head.split(b"\r\n")[0])
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()

    async with http_server(collect) as collector:
        monkeypatch.setenv(ENDPOINT, f"http://{collector.endpoint}")
        async with tracer_provider({ENDPOINT: f"http://{collector.endpoint}"}) as provider:
            with tracing_on(provider).cycle(CYCLE):
                pass

    assert requests == [b"POST /v1/traces HTTP/1.1"]


def test_libraries_that_quote_addresses_are_not_heard() -> None:
    with captured_logs("debug") as logs:
        logging.getLogger("opentelemetry.exporter.otlp.proto.http.trace_exporter").error(
            "http://secret@collector"
        )
        logging.getLogger("aiokafka.conn").error("broker.example:9092")

    assert logs.text == ""
