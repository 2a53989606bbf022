"""``requeue``: an operator lets automatic retries start over; and what ``outbox requeue`` shares with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, TypeVar
from uuid import UUID

import typer

from ...application.requeue_report import RequeueReport
from ..bootstrap import Application
from ..failures import Failure, WrongUsage
from ..output import Facts, show_rows
from .arguments import AsJson, ConfigFile, Debug, DryRun, JobName, known_job, row_id
from .command import command_of

Id = TypeVar("Id", UUID, int)


def requeue(
    context: typer.Context,
    job: JobName,
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ID]...", help="Ids of the rows themselves, of deals, or of recordings."),
    ] = None,
    *,
    everything: Annotated[bool, typer.Option("--all", help="All rows whose attempts are used up.")] = False,
    error: Annotated[
        str | None,
        typer.Option("--error", metavar="CODE", help="With --all: only rows with this last error."),
    ] = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
    debug: Debug = False,
) -> None:
    """Let automatic retries start over: no attempts made, due now."""

    async def requeued(application: Application) -> RequeueReport:
        rows_of = application.jobs[name].requeue
        if everything:
            return await rows_of.poison(error=error, dry_run=dry_run)
        return await rows_of.rows(rows, dry_run=dry_run)

    with command_of(context, config, debug=debug) as command:
        name = known_job(job, command.settings)
        ensure_named("requeue", ids, everything=everything, error=error)
        rows = [row_id(text) for text in ids or ()]
        report = command.run(requeued)
        title = f"{name}: rows that {'would start' if dry_run else 'start'} over: {len(report.requeued)}"
        show_requeued(title, report.requeued, report.refused, as_json=as_json)


def ensure_named(command: str, ids: Sequence[str] | None, *, everything: bool, error: str | None) -> None:
    """Raise `WrongUsage` unless what is meant is named, one by one or as everything."""
    if everything == bool(ids):
        raise WrongUsage(f"{command} needs either ids or --all")
    if error is not None and not everything:
        raise WrongUsage("--error goes with --all")


def show_requeued(title: str, requeued: Iterable[Id], refused: Mapping[Id, str], *, as_json: bool) -> None:
    """Show of each id whether it starts over, or why not; raises `Failure` when any was refused."""
    show_rows(
        title,
        ("id", "requeued", "reason"),
        [
            *(_facts(id_, requeued=True, reason=None) for id_ in requeued),
            *(_facts(id_, requeued=False, reason=reason) for id_, reason in refused.items()),
        ],
        as_json=as_json,
    )
    if refused:
        id_, reason = next(iter(refused.items()))
        others = len(refused) - 1
        raise Failure(f"{id_}: {reason}" + (f"; {others} more were refused" if others else ""))


def _facts(id_: UUID | int, *, requeued: bool, reason: str | None) -> Facts:
    return {"id": str(id_) if isinstance(id_, UUID) else id_, "requeued": requeued, "reason": reason}
