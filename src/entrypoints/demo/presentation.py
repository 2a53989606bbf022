"""The demo on a terminal, and as JSON."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Final

from attrs import field, frozen
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.table import Table

from .results import DemoResult
from .story import play

DEALS: Final = 4000
RECORDINGS: Final = 1000


def run(*, deals: int = DEALS, recordings: int = RECORDINGS, as_json: bool = False) -> int:
    """Play the demo and show it; 0 when everything was proven, 1 otherwise.

    Progress goes to standard error, the result to standard output. Raises what `play` raises.
    """
    errors, output = Console(stderr=True, highlight=False), Console(highlight=False)
    columns = (TextColumn("{task.description:>26}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=errors) as bars:
        result = asyncio.run(
            play(number_of_deals=deals, number_of_recordings=recordings, audience=_Terminal(bars))
        )
    if as_json:
        output.print_json(json.dumps(facts(result)))
    else:
        show(output, result)
    return 0 if result.proven else 1


@frozen
class _Terminal:
    """See `Audience`: a bar for each step, and sentences above them."""

    _bars: Progress
    _tasks: dict[str, TaskID] = field(factory=dict[str, TaskID], init=False)

    def shown(self, step: str, done: int, total: int) -> None:
        if step not in self._tasks:
            self._tasks[step] = self._bars.add_task(step, total=total)
        self._bars.update(self._tasks[step], completed=done, total=total)

    def told(self, sentence: str) -> None:
        self._bars.console.print(sentence)


def facts(result: DemoResult) -> dict[str, object]:
    """The result as JSON has it."""
    return {
        "proven": result.proven,
        "seconds": round(result.seconds, 1),
        "finished_when_killed": {
            "deals": result.killed_at.deals,
            "recordings": result.killed_at.recordings,
        },
        "without_bucket": {
            "failed": result.without_bucket.failed,
            "attempts": result.without_bucket.attempts,
        },
        "events": {
            "published": result.arrivals.events,
            "repeated": result.arrivals.repeated,
            "missing": result.arrivals.missing,
            "uncommitted": result.arrivals.uncommitted,
            "keys_out_of_order": result.arrivals.disordered,
        },
        "deals": [
            {
                "scenario": row.scenario.name,
                "deals": row.deals,
                "status": row.status,
                "expected": row.scenario.ends,
                "chats": row.chats,
                "feed_entries": row.feed_entries,
                "events": row.events,
                "as_expected": row.as_expected,
            }
            for row in result.deals
        ],
        "recordings": [
            {
                "scenario": row.scenario.name,
                "recordings": row.recordings,
                "status": row.status,
                "expected": row.scenario.ends,
                "finalization": row.finalization,
                "events": row.events,
                "hints": row.hints,
                "as_expected": row.as_expected,
            }
            for row in result.recordings
        ],
        "invariants": [
            {"claim": finding.claim, "violations": finding.violations} for finding in result.findings
        ],
    }


def show(console: Console, result: DemoResult) -> None:
    """The result as tables."""
    _table(
        console,
        "What became of the deals",
        ("deals", "what had happened", "status", "chats", "feed", "events", ""),
        [
            (
                *(row.deals, row.scenario.story, row.status, row.chats, row.feed_entries, row.events),
                _mark(as_expected=row.as_expected),
            )
            for row in result.deals
        ],
    )
    _table(
        console,
        "What became of the recordings",
        ("calls", "what had happened", "status", "job", "events", "hints", ""),
        [
            (
                *(row.recordings, row.scenario.story, row.status, row.finalization, row.events, row.hints),
                _mark(as_expected=row.as_expected),
            )
            for row in result.recordings
        ],
    )
    _table(
        console,
        "What must never happen, held against the database",
        ("invariant", "violations"),
        [
            (finding.claim, f"[{'red' if finding.violations else 'green'}]{finding.violations}[/]")
            for finding in result.findings
        ],
    )
    arrived = result.arrivals
    console.print(
        f"Events that arrived: {arrived.events}, of them repeated after the kill: {arrived.repeated};"
        f" missing: {arrived.missing}; keys out of order: {arrived.disordered}."
    )
    lost, counted = result.without_bucket.failed, result.without_bucket.attempts
    console.print(f"Without the bucket, recordings declared lost: {lost}; attempts counted: {counted}.")
    killed_at = result.killed_at
    console.print(
        f"The worker was killed after {killed_at.deals} deals and {killed_at.recordings} recordings."
        f" All of it took {result.seconds:.0f} s."
    )
    verdict = "Nothing was lost, nothing was done twice." if result.proven else "Something went wrong."
    console.print(f"[bold {'green' if result.proven else 'red'}]{verdict}[/]")


_NUMBERS: Final = ("deals", "calls", "chats", "feed", "events", "hints", "violations")


def _table(console: Console, title: str, headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    table = Table(title=title, title_justify="left", box=box.SIMPLE)
    for heading in headings:
        table.add_column(heading, justify="right" if heading in _NUMBERS else "left")
    for row in rows:
        table.add_row(*map(str, row))
    console.print(table)


def _mark(*, as_expected: bool) -> str:
    return "[green]✓[/]" if as_expected else "[red]✗[/]"
