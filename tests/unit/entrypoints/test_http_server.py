"""Probes and metrics over HTTP."""

from __future__ import annotations

import asyncio
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import AsyncIterator

import pytest
from attrs import define, field
from messenger_jobs.entrypoints import http_server
from messenger_jobs.entrypoints.http_server import CannotListen, Probes, serving_http
from prometheus_client import CollectorRegistry, Gauge


@define(slots=False)
class Subject:
    """What the server asks, and what it is told."""

    complaints: list[str] = field(factory=list[str])
    database_is_up: bool = True
    database_answers: bool = True
    registry: CollectorRegistry = field(factory=CollectorRegistry)
    port: int = 0

    def __attrs_post_init__(self) -> None:
        self.gauge = Gauge("backlog", "The backlog.", registry=self.registry)

    async def ask_database(self) -> None:
        if not self.database_answers:
            await asyncio.Event().wait()
        if not self.database_is_up:
            raise ConnectionError

    async def measure(self) -> None:
        await self.ask_database()
        self.gauge.set(7)

    @property
    def probes(self) -> Probes:
        return Probes(
            complaints=lambda: self.complaints,
            ready=self.ask_database,
            measure=self.measure,
            unmeasured=lambda: self.gauge.set(float("nan")),
            registry=self.registry,
        )

    def get_blocking(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as answer:
            with answer:
                return answer.code, answer.read().decode()

    async def get(self, path: str) -> tuple[int, str]:
        return await asyncio.to_thread(self.get_blocking, path)


@pytest.fixture
async def subject(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Subject]:
    monkeypatch.setattr(http_server, "ANSWER_WITHIN", 0.1)
    subject = Subject()
    async with serving_http(0, subject.probes) as subject.port:
        yield subject


async def test_worker_that_turns_is_alive(subject: Subject) -> None:
    assert await subject.get("/livez") == (200, "ok\n")


async def test_worker_with_complaints_is_not_alive(subject: Subject) -> None:
    subject.complaints = ["one job is silent", "another too"]

    assert await subject.get("/livez") == (503, "one job is silent\nanother too\n")


async def test_worker_whose_database_answers_is_ready(subject: Subject) -> None:
    assert await subject.get("/readyz") == (200, "ok\n")


async def test_worker_whose_database_is_down_is_not_ready(subject: Subject) -> None:
    subject.database_is_up = False

    assert await subject.get("/readyz") == (503, "the database cannot be used\n")


async def test_database_without_an_answer_is_not_waited_for(subject: Subject) -> None:
    subject.database_answers = False

    assert (await subject.get("/readyz"))[0] == 503


async def test_gauges_are_measured_at_the_scrape(subject: Subject) -> None:
    status, text = await subject.get("/metrics")

    assert status == 200
    assert "backlog 7.0" in text


async def test_scrape_during_an_outage_shows_no_old_value(subject: Subject) -> None:
    await subject.get("/metrics")
    subject.database_is_up = False

    status, text = await subject.get("/metrics")

    assert status == 200
    assert "backlog NaN" in text


async def test_event_loop_that_hangs_does_not_hang_the_probes(subject: Subject) -> None:
    subject.complaints = ["the loop hangs"]
    answers: list[int] = []

    def ask() -> None:
        answers.extend(subject.get_blocking(path)[0] for path in ("/livez", "/readyz", "/metrics"))

    asking = threading.Thread(target=ask)
    asking.start()
    asking.join(timeout=30)  # not awaited: meanwhile the loop hangs

    assert answers == [503, 503, 200]


async def test_unknown_path_names_the_known_ones(subject: Subject) -> None:
    assert await subject.get("/") == (404, "try /livez, /readyz or /metrics\n")


async def test_taken_port_is_refused_with_its_number() -> None:
    with socket.create_server(("0.0.0.0", 0)) as other:
        port = other.getsockname()[1]

        with pytest.raises(CannotListen, match=f"cannot listen on port {port}: Address already in use"):
            async with serving_http(port, Subject().probes):
                pass


async def test_port_is_free_again_afterwards() -> None:
    async with serving_http(0, Subject().probes) as port:
        pass

    async with serving_http(port, Subject().probes) as again:
        assert again == port
