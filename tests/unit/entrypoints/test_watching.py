"""What is shown again and again: in place on a terminal, line by line for programs, one below the other in a file."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import ClassVar

import pytest
from messenger_jobs.adapters.memory.provisioning import MemoryProvisioningStore
from messenger_jobs.application.ports.errors import DatabaseUnavailable
from messenger_jobs.application.ports.provisioning import ProvisioningBacklog
from messenger_jobs.application.stop_signal import StopSignal
from messenger_jobs.domain.deal_chat_provision import ProvisioningRules
from messenger_jobs.entrypoints.commands.status import watch_status
from messenger_jobs.entrypoints.output import Facts, watching
from messenger_jobs.entrypoints.settings import load_settings

from tests.support.builders import a_provision
from tests.support.command_line import URL, CommandLine
from tests.support.eventually import eventually

FIRST: Mapping[str, Facts] = {"chats": {"job": "chats", "due": 1111}}
LATER: Mapping[str, Facts] = {"chats": {"job": "chats", "due": 2222}}
MOVES_UP = "\x1b[1A"


def test_programs_get_one_line_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    with watching(as_json=True) as show:
        show(FIRST, at="09:26:53", error=None)
        show({}, at="09:26:55", error="the connection to the database failed")

    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [
        {"at": "09:26:53", "jobs": [{"job": "chats", "due": 1111}], "error": None},
        {"at": "09:26:55", "jobs": [], "error": "the connection to the database failed"},
    ]


def test_a_file_gets_one_below_the_other(capsys: pytest.CaptureFixture[str]) -> None:
    with watching(as_json=False) as show:
        show(FIRST, at="09:26:53", error=None)
        show({}, at="09:26:55", error="the connection to the database failed")
        show(LATER, at="09:26:57", error=None)

    out = capsys.readouterr().out
    assert MOVES_UP not in out
    said = ["09:26:53", "1111", "09:26:55 the connection to the database failed", "09:26:57", "2222"]
    assert sorted(said, key=out.index) == said


def test_a_terminal_is_written_over(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("TERM", "xterm")
    with watching(as_json=False) as show:
        show(FIRST, at="09:26:53", error=None)
        show(LATER, at="09:26:55", error=None)

    out = capsys.readouterr().out
    assert out.index("1111") < out.index(MOVES_UP) < out.index("2222")


class StoreThatComesAndGoes(MemoryProvisioningStore):
    gone: ClassVar[bool] = False

    async def backlog(self, *, as_of: datetime, rules: ProvisioningRules) -> ProvisioningBacklog:
        if self.gone:
            raise DatabaseUnavailable("CONNECTION_LOST", "the connection to the database failed")
        return await super().backlog(as_of=as_of, rules=rules)


async def test_database_that_goes_and_comes_back_is_watched_on(monkeypatch: pytest.MonkeyPatch) -> None:
    command_line, stop = CommandLine(), StopSignal()
    command_line.store = StoreThatComesAndGoes(command_line.rows)
    command_line.put(a_provision())
    shown: list[tuple[object, str | None]] = []

    def show(titled: Mapping[str, Facts], *, at: str, error: str | None) -> None:
        del at
        shown.append((titled["chat-provision-retry"]["due"] if titled else None, error))

    async def next_look() -> None:
        seen = len(shown)
        command_line.clock.advance(timedelta(seconds=2))
        await eventually(lambda: len(shown) > seen)

    async with command_line.compose(load_settings({"MESSENGER_DATABASE_URL": URL})) as application:
        watched = asyncio.create_task(watch_status(application, stop, show))
        await eventually(lambda: bool(shown))
        monkeypatch.setattr(StoreThatComesAndGoes, "gone", True)
        await next_look()
        monkeypatch.setattr(StoreThatComesAndGoes, "gone", False)
        await next_look()
        stop.request()
        await watched

    assert shown == [(1, None), (None, "the connection to the database failed"), (1, None)]
