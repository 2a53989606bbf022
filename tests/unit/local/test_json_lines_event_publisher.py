"""The file of events, when others write to it too, and when it cannot be written to."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from messenger_jobs.adapters.local.event_publisher import JsonLinesEventPublisher
from messenger_jobs.application.ports.errors import Misconfigured
from messenger_jobs.application.ports.event_publisher import Event, NotPublished, Published


def an_event(number: int) -> Event:
    return Event(topic="topic", key=f"{number}".encode(), value=b"{}", headers=(("event-id", b"\xff"),))


def numbers_in(file: Path) -> list[int]:
    return [int(json.loads(line)["key"]) for line in file.read_text().splitlines()]


async def test_line_tells_topic_key_value_and_headers_and_which_bytes_are_no_text(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    await JsonLinesEventPublisher(file).publish([an_event(1)])
    expected = {"topic": "topic", "key": "1", "value": "{}", "headers": [["event-id", {"base64": "/w=="}]]}
    assert json.loads(file.read_text()) == expected


async def test_offset_is_the_number_of_the_line_whoever_wrote_the_lines_before(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    first, second = JsonLinesEventPublisher(file), JsonLinesEventPublisher(file)
    assert await first.publish([an_event(1), an_event(2)]) == [
        Published(partition=None, offset=1),
        Published(partition=None, offset=2),
    ]
    assert await second.publish([an_event(3)]) == [Published(partition=None, offset=3)]
    assert await first.publish([an_event(4)]) == [Published(partition=None, offset=4)]
    assert numbers_in(file) == [1, 2, 3, 4]


async def test_file_that_was_replaced_is_counted_anew(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    publisher = JsonLinesEventPublisher(file)
    await publisher.publish([an_event(1), an_event(2)])
    file.rename(tmp_path / "events.old")
    assert await publisher.publish([an_event(3)]) == [Published(partition=None, offset=1)]


async def test_line_that_a_crash_cut_short_is_ended(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    file.write_text('{"topic": "to')
    assert await JsonLinesEventPublisher(file).publish([an_event(1)]) == [Published(partition=None, offset=2)]
    torn, whole = file.read_text().splitlines()
    assert torn == '{"topic": "to'
    assert json.loads(whole)["key"] == "1"


async def test_what_a_cancelled_publish_still_writes_stands_before_what_comes_later(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    publisher = JsonLinesEventPublisher(file)
    for number in range(20):
        publishing = asyncio.create_task(publisher.publish([an_event(number)]))
        for _ in range(number % 4):
            await asyncio.sleep(0)
        publishing.cancel()
        await asyncio.gather(publishing, return_exceptions=True)
    await publisher.publish([an_event(20)])
    assert numbers_in(file) == sorted(numbers_in(file))
    assert numbers_in(file)[-1] == 20


async def test_folder_that_is_not_there_is_misconfigured(tmp_path: Path) -> None:
    for file in (tmp_path / "missing" / "events.jsonl", tmp_path):
        with pytest.raises(Misconfigured, match="file for events") as caught:
            await JsonLinesEventPublisher(file).publish([an_event(1)])
        assert caught.value.code == "FILE_UNWRITABLE"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
async def test_full_disk_is_an_outage() -> None:
    receipts = await JsonLinesEventPublisher(Path("/dev/full")).publish([an_event(1), an_event(2)])
    assert receipts == [NotPublished(code="FILE_UNWRITABLE", outage=True)] * 2
