"""The command ``messenger-jobs``. Results go to standard output, logs and errors to standard error.

Exit codes: 0 done, 1 failed, 2 wrong usage or settings.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from ..adapters.postgres.migrations import migrate as apply_migrations
from ..application.cycle_report import CycleEnd
from ..application.outbox_relay import OUTBOX_RELAY
from ..application.requeue_report import RequeueReport
from ..application.stop_signal import StopSignal
from .bootstrap import Application
from .commands.arguments import (
    AsJson,
    ConfigFile,
    Debug,
    DryRun,
    JobName,
    JobNames,
    RunnableName,
    known_job,
    parts_to_run,
    row_id,
    runnable_once,
)
from .commands.audit import audit
from .commands.check import check
from .commands.command import command_of
from .commands.explain import explain
from .commands.list_rows import list_rows
from .commands.outbox import outbox
from .commands.show import show
from .commands.status import status
from .failures import Failure, WrongUsage, tell, told_in_one_sentence
from .output import Facts, show_facts, show_rows
from .summaries import CYCLE_ENDS, cycle_facts, relayed, requeue_rows
from .worker import run_worker


class _Commands(TyperGroup):
    """Tells wrong usage in one sentence, like every other error."""

    def main(self, *args: Any, **options: Any) -> NoReturn:
        try:
            exit_code = super().main(*args, **{**options, "standalone_mode": False})
        except typer.TyperException as error:
            tell(error.format_message())
            exit_code = error.exit_code
        sys.exit(exit_code)


app = typer.Typer(
    name="messenger-jobs",
    cls=_Commands,
    help="Finishes deal chats that got stuck. Its settings are environment variables, such as MESSENGER_DATABASE_URL.",
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.command()
def worker(
    context: typer.Context,
    *,
    job: JobNames = None,
    as_json: AsJson = False,
    config: ConfigFile = None,
    debug: Debug = False,
) -> None:
    """Run the periodic jobs, the relay and the consumer until SIGTERM or SIGINT; a second signal stops at once."""
    # A worker's only output are its logs.
    with command_of(context, config, debug=debug, log_format="json" if as_json else None) as command:
        command.run_stoppably(
            lambda application, stop: run_worker(application, parts_to_run(job, application), stop)
        )


@app.command()
def run_once(
    context: typer.Context,
    job: RunnableName,
    *,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
    debug: Debug = False,
) -> None:
    """Run one cycle of a job and print what it came to."""

    async def cycle(application: Application, stop: StopSignal) -> tuple[CycleEnd, str | None, Facts]:
        name = runnable_once(job, application)
        await application.database.ensure_usable()
        if name == OUTBOX_RELAY:
            return await relayed(application, stop, dry_run=dry_run)
        scheduled = application.jobs[name]
        report = await (scheduled.rehearse(stop) if dry_run else scheduled.run(stop))
        return report.end, report.error_code, cycle_facts(report, dry_run=dry_run)

    with command_of(context, config, debug=debug) as command:
        end, error_code, facts = command.run_stoppably(cycle)
        told = "nothing was changed, a cycle would come to this" if dry_run else CYCLE_ENDS[end]
        show_facts(f"{job}: {told}", facts, as_json=as_json)
        if end in (CycleEnd.ABORTED, CycleEnd.LOCK_LOST):
            raise Failure(f"{job}: {CYCLE_ENDS[end]} ({error_code or end.value})")


@app.command()
def migrate(
    context: typer.Context, *, as_json: AsJson = False, config: ConfigFile = None, debug: Debug = False
) -> None:
    """Bring the database's schema up to date; harmless when it is."""
    with command_of(context, config, debug=debug) as command:
        applied = apply_migrations(command.settings.database_url)
        show_rows(
            f"migrations applied: {len(applied)}",
            ("migration",),
            [{"migration": migration} for migration in applied],
            as_json=as_json,
        )


app.command()(status)
app.command()(audit)
app.command("list")(list_rows)
app.command()(show)
app.command()(explain)
app.command()(check)
app.add_typer(outbox, name="outbox")


@app.command()
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
        if everything == bool(ids):
            raise WrongUsage("requeue needs either ids or --all")
        if error is not None and not everything:
            raise WrongUsage("--error goes with --all")
        rows = [row_id(text) for text in ids or ()]
        report = command.run(requeued)
        show_rows(
            f"{name}: rows that {'would start' if dry_run else 'start'} over: {len(report.requeued)}",
            ("id", "requeued", "reason"),
            requeue_rows(report),
            as_json=as_json,
        )
        if report.refused:
            id_, reason = next(iter(report.refused.items()))
            others = len(report.refused) - 1
            raise Failure(f"{id_}: {reason}" + (f"; {others} more were refused" if others else ""))


@app.command()
def demo(*, as_json: AsJson = False, debug: Debug = False) -> None:
    """Watch stuck deal chats and recordings being finished, on a PostgreSQL of its own."""
    with told_in_one_sentence(debug=debug):
        from .demo.presentation import run  # noqa: PLC0415 - nobody else needs what it needs

        raise typer.Exit(run(as_json=as_json))


def main() -> None:
    """The console script."""
    app()
