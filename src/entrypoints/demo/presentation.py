"""The demo on a terminal, and as JSON."""

from __future__ import annotations

import asyncio
import json
from typing import Final

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from .story import SECOND_WORKER, DemoResult, play

DEALS: Final = 4000


def run(*, deals: int = DEALS, as_json: bool = False) -> int:
    """Play the demo and show it; 0 when everything was proven, 1 otherwise.

    Progress goes to standard error, the result to standard output. Raises what `play` raises.
    """
    errors, output = Console(stderr=True), Console()
    columns = (TextColumn("{task.description:>20}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=errors) as bars:
        tasks: dict[str, TaskID] = {}

        def progress(step: str, done: int, total: int) -> None:
            if step not in tasks:
                if step == SECOND_WORKER:
                    bars.console.print(
                        "The worker was killed with SIGKILL in the middle of its work. Another starts."
                    )
                tasks[step] = bars.add_task(step, total=total)
            bars.update(tasks[step], completed=done, total=total)

        result = asyncio.run(play(deals=deals, progress=progress))
    if as_json:
        output.print_json(json.dumps(_facts(result)))
    else:
        _show(output, result)
    return 0 if result.proven else 1


def _facts(result: DemoResult) -> dict[str, object]:
    return {
        "proven": result.proven,
        "seconds": round(result.seconds, 1),
        "finished_when_killed": result.killed_at,
        "scenarios": [
            {
                "scenario": row.scenario.name,
                "deals": row.deals,
                "status": row.status,
                "expected": row.scenario.ends,
                "chats": row.chats,
                "feed_entries": row.feed_entries,
                "events": row.events,
            }
            for row in result.results
        ],
        "invariants": [
            {"claim": finding.claim, "violations": finding.violations} for finding in result.findings
        ],
    }


def _show(console: Console, result: DemoResult) -> None:
    table = Table(title="What became of the deals", title_justify="left", box=box.SIMPLE)
    for heading in ("deals", "what had happened", "status", "chats", "feed", "events", ""):
        table.add_column(
            heading, justify="right" if heading in ("deals", "chats", "feed", "events") else "left"
        )
    for row in result.results:
        table.add_row(
            str(row.deals),
            row.scenario.story,
            row.status,
            str(row.chats),
            str(row.feed_entries),
            str(row.events),
            "[green]✓[/]" if row.as_expected else f"[red]not {row.scenario.ends}[/]",
        )
    console.print(table)
    proof = Table(
        title="What must never happen, held against the database", title_justify="left", box=box.SIMPLE
    )
    proof.add_column("invariant")
    proof.add_column("violations", justify="right")
    for finding in result.findings:
        proof.add_row(finding.claim, f"[{'red' if finding.violations else 'green'}]{finding.violations}[/]")
    console.print(proof)
    console.print(
        f"The worker was killed with SIGKILL when {result.killed_at} deals were finished. "
        f"All of it took {result.seconds:.0f} s."
    )
    verdict = "Nothing was lost, nothing was done twice." if result.proven else "Something went wrong."
    console.print(f"[bold {'green' if result.proven else 'red'}]{verdict}[/]")
