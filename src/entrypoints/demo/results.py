"""What became of everything in the demo, beside what was to become of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import frozen
from psycopg import AsyncConnection
from psycopg.rows import dict_row

from ...adapters.postgres.audit import Finding
from . import deals, recordings
from .arrivals import Arrivals
from .deals import DealScenario
from .recordings import RecordingScenario


@frozen(kw_only=True)
class DealResult:
    """How the deals of one scenario ended."""

    scenario: DealScenario
    status: str
    deals: int
    chats: int
    feed_entries: int
    events: int

    @property
    def as_expected(self) -> bool:
        """Whether status and number of events are as the scenario says."""
        return self.status == self.scenario.ends and self.events == self.scenario.events * self.deals


@frozen(kw_only=True)
class RecordingResult:
    """How the recordings of one scenario ended."""

    scenario: RecordingScenario
    status: str
    finalization: str
    recordings: int
    most_attempts: int
    events: int
    hints: int

    @property
    def as_expected(self) -> bool:
        """Whether both rows, and what was told, are as the scenario says."""
        told = (self.events, self.hints)
        return (
            (self.status, self.finalization) == (self.scenario.ends, self.scenario.finalization)
            and told == (self.scenario.events * self.recordings, self.scenario.hints * self.recordings)
            and (self.most_attempts > 0) == self.scenario.looked_at
        )


@frozen(kw_only=True)
class Harm:
    """What the missing bucket did: recordings declared lost, and attempts counted."""

    failed: int
    attempts: int


@frozen(kw_only=True)
class Finished:
    """How many deals and recordings are finished."""

    deals: int
    recordings: int


@frozen(kw_only=True)
class DemoResult:
    """What the demo showed; ``killed_at`` is what was finished when the worker was killed."""

    deals: Sequence[DealResult]
    recordings: Sequence[RecordingResult]
    findings: Sequence[Finding]
    arrivals: Arrivals
    without_bucket: Harm
    killed_at: Finished
    seconds: float

    @property
    def proven(self) -> bool:
        """Whether all ended as expected and was told, the missing bucket did no harm, and no invariant is broken."""
        return (
            all(result.as_expected for result in self.deals)
            and all(result.as_expected for result in self.recordings)
            and self.without_bucket == Harm(failed=0, attempts=0)
            and self.arrivals.as_promised
            and not any(finding.violations for finding in self.findings)
        )


async def deal_results(observer: AsyncConnection[Any]) -> list[DealResult]:
    """One for each way in which the deals of a scenario ended, in the scenarios' order."""
    by_name = {scenario.name: scenario for scenario in deals.SCENARIOS}
    results = [
        DealResult(scenario=by_name[row.pop("scenario")], **row)
        for row in await _rows(observer, deals.RESULT)
    ]
    return sorted(results, key=lambda result: deals.SCENARIOS.index(result.scenario))


async def recording_results(observer: AsyncConnection[Any]) -> list[RecordingResult]:
    """The same for recordings."""
    by_name = {scenario.name: scenario for scenario in recordings.SCENARIOS}
    results = [
        RecordingResult(scenario=by_name[row.pop("scenario")], **row)
        for row in await _rows(observer, recordings.RESULT)
    ]
    return sorted(results, key=lambda result: recordings.SCENARIOS.index(result.scenario))


async def harm(observer: AsyncConnection[Any]) -> Harm:
    """What has been done until now that must not be done without a bucket."""
    (row,) = await _rows(observer, recordings.HARM)
    return Harm(**row)


async def _rows(observer: AsyncConnection[Any], query: Any) -> list[dict[str, Any]]:
    async with observer.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(query)
        return await cursor.fetchall()
