"""The demo, on a server of its own and with fewer rows."""

from __future__ import annotations

import tempfile
from pathlib import Path

from attrs import define, field
from messenger_jobs.entrypoints.demo import deals, recordings
from messenger_jobs.entrypoints.demo.results import Harm
from messenger_jobs.entrypoints.demo.story import play


@define
class Watcher:
    """Remembers the last of each step, and every sentence."""

    steps: dict[str, tuple[int, int]] = field(factory=dict[str, tuple[int, int]])
    sentences: list[str] = field(factory=list[str])

    def shown(self, step: str, done: int, total: int) -> None:
        self.steps[step] = (done, total)

    def told(self, sentence: str) -> None:
        self.sentences.append(sentence)


async def test_demo_proves_what_it_claims_and_leaves_nothing_behind() -> None:
    audience = Watcher()
    before = left_behind()

    result = await play(number_of_deals=400, number_of_recordings=300, audience=audience)

    assert [row.scenario for row in result.deals] == list(deals.SCENARIOS)
    assert [row.scenario for row in result.recordings] == list(recordings.SCENARIOS)
    assert [row for row in result.deals if not row.as_expected] == []
    assert [row for row in result.recordings if not row.as_expected] == []
    assert [finding for finding in result.findings if finding.violations] == []
    assert result.without_bucket == Harm(failed=0, attempts=0)
    assert result.proven

    total = audience.steps["another worker: recordings"][1]
    assert 0 < result.killed_at.recordings <= total
    assert audience.steps["another worker: recordings"] == (total, total)
    assert len(audience.sentences) == 3
    assert left_behind() <= before


def left_behind() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob("messenger-jobs-demo-*"))
