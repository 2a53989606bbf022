"""At three in the morning a command that does not exist helps nobody: every command of the runbooks is run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from attrs import evolve, frozen

from tests.e2e.recordings import Recordings
from tests.operation.deployed_files import anchors
from tests.operation.runbooks import PAGES, Ids, blocks, commands, create_topics, prepare
from tests.support.kafka_servers import KafkaTestServer
from tests.support.postgres_servers import PostgresTestServer
from tests.support.processes import run
from tests.support.s3_servers import Bucket

REQUIRED: Final = {"chat-provision-retry.md", "recording-finalize-retry.md", "outbox-relay.md"}


@frozen
class Night:
    """A prepared database, to be copied for each command."""

    server: PostgresTestServer
    template: str
    ids: Ids
    recordings: Recordings
    kafka: str


@pytest.fixture(scope="module")
def night(
    postgres_server: PostgresTestServer, migrated_template: str, module_bucket: Bucket, kafka: KafkaTestServer
) -> Iterator[Night]:
    create_topics(kafka.bootstrap_servers)
    with postgres_server.database(migrated_template) as url:
        recordings = Recordings(url, module_bucket)
        ids = prepare(recordings)
        yield Night(postgres_server, url.rpartition("/")[2], ids, recordings, kafka.bootstrap_servers)


@pytest.mark.parametrize("command", commands())
def test_command_does_what_the_page_says(night: Night, command: str) -> None:
    with night.server.database(night.template) as url:
        settings = evolve(night.recordings, url=url).settings(MESSENGER_KAFKA_BOOTSTRAP_SERVERS=night.kafka)

        finished = run(url, *night.ids.put_into(command), **settings)

    assert finished.returncode == 0, finished.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_blocks_hold_commands_only(page: Path) -> None:
    for language, lines in blocks(page):
        assert language == "console"
        assert all(line.startswith("messenger-jobs ") for line in lines)


def test_every_job_has_its_page() -> None:
    assert {page.name for page in PAGES} >= REQUIRED


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^):]+)\)", page.read_text(encoding="utf-8"))

    for link in links:
        target, _, anchor = link.partition("#")
        there = page if not target else page.parent / target
        assert there.exists(), link
        assert not anchor or anchor in anchors(there), link
