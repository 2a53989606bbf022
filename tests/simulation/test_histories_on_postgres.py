"""A real PostgreSQL comes to the same as the model on which histories are played, call by call and row by row."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from types import ModuleType
from typing import Final

import pytest
from attrs import frozen
from messenger_jobs.adapters.postgres import finalization_rows, finalization_statements

from tests.simulation.on_postgres import Comparison
from tests.simulation.postgres_replay import Difference
from tests.simulation.replay_server import ReplayServer, replay_server
from tests.support.postgres_servers import PostgresTestServer

HISTORIES: Final = 900
"""Played by the model; the fourth of them that is compared takes about 20 seconds of one core."""


@pytest.fixture
async def server(database_url: str) -> AsyncGenerator[ReplayServer]:
    async with replay_server(database_url) as server:
        yield server


async def test_histories_come_to_the_same_in_memory_and_on_postgres(
    server: ReplayServer, postgres_server: PostgresTestServer, capsys: pytest.CaptureFixture[str]
) -> None:
    comparison = Comparison()
    await comparison.add_seeded(postgres_server.label, range(HISTORIES), server)
    with capsys.disabled():
        print(f"\n{comparison}", end=" ")  # noqa: T201 - how much was compared is part of the result
    assert comparison.compared > 100
    assert comparison.other_orders < comparison.compared / 50


@frozen
class Mistake:
    """What stands in a statement instead of what should."""

    module: ModuleType
    statement: str
    right: str
    wrong: str


MISTAKES: Final = {
    "due a microsecond later": Mistake(
        finalization_statements, "CANDIDATES", "next_attempt_at <= %(as_of)s", "next_attempt_at < %(as_of)s"
    ),
    "no version guard": Mistake(
        finalization_rows,
        "WRITE_ENTRY",
        "version = %(entry_version)s - 1",
        "%(entry_version)s::bigint is not null",
    ),
    "waits instead of skipping": Mistake(finalization_rows, "WRITE_ENTRY", "skip locked", ""),
}


@pytest.mark.parametrize("name", MISTAKES)
async def test_mistake_in_a_statement_is_noticed(
    server: ReplayServer, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    mistake = MISTAKES[name]
    text: str = getattr(mistake.module, mistake.statement)
    assert mistake.right in text
    monkeypatch.setattr(mistake.module, mistake.statement, text.replace(mistake.right, mistake.wrong))
    with pytest.raises(Difference, match="Replay it"):
        await Comparison().add_seeded("0", range(HISTORIES), server)
