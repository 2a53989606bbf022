"""The command ``messenger-jobs``. Results go to standard output, logs and errors to standard error.

Exit codes: 0 done, 1 failed, 2 wrong usage or settings.
"""

from __future__ import annotations

import sys
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from ..adapters.postgres.migrations import migrate as apply_migrations
from ..application.cycle_report import CycleEnd
from ..application.outbox_relay import OUTBOX_RELAY
from ..application.stop_signal import StopSignal
from .bootstrap import Application
from .commands.arguments import (
    AsJson,
    ConfigFile,
    Debug,
    DryRun,
    JobNames,
    RunnableName,
    parts_to_run,
    runnable_once,
)
from .commands.audit import audit
from .commands.check import check
from .commands.command import command_of
from .commands.explain import explain
from .commands.list_rows import list_rows
from .commands.outbox import outbox
from .commands.requeue import requeue
from .commands.show import show
from .commands.status import status
from .failures import Failure, tell, told_in_one_sentence
from .output import Facts, show_facts, show_rows
from .summaries import CYCLE_ENDS, cycle_facts, relay_facts
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
            return await _relayed(application, stop, dry_run=dry_run)
        scheduled = application.jobs[name]
        report = await (scheduled.rehearse(stop) if dry_run else scheduled.run(stop))
        return report.end, report.error_code, cycle_facts(report, dry_run=dry_run)

    with command_of(context, config, debug=debug) as command:
        end, error_code, facts = command.run_stoppably(cycle)
        told = "nothing was changed, a cycle would come to this" if dry_run else CYCLE_ENDS[end]
        show_facts(f"{job}: {told}", facts, as_json=as_json)
        if end in (CycleEnd.ABORTED, CycleEnd.LOCK_LOST):
            raise Failure(f"{job}: {CYCLE_ENDS[end]} ({error_code or end.value})")


async def _relayed(
    application: Application, stop: StopSignal, *, dry_run: bool
) -> tuple[CycleEnd, str | None, Facts]:
    if dry_run:
        backlog = await application.outbox_backlog()
        return (
            CycleEnd.COMPLETED,
            None,
            {"job": OUTBOX_RELAY, "dry_run": True, "unpublished": backlog.unpublished},
        )
    assert application.messaging.relay is not None
    report = await application.messaging.relay.run_once(stop)
    return report.end, report.error_code, relay_facts(report)


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
app.command()(requeue)


@app.command()
def demo(*, as_json: AsJson = False, debug: Debug = False) -> None:
    """Watch stuck deal chats and recordings being finished, on a PostgreSQL of its own."""
    with told_in_one_sentence(debug=debug):
        from .demo.presentation import run  # noqa: PLC0415 - nobody else needs what it needs

        raise typer.Exit(run(as_json=as_json))


def main() -> None:
    """The console script."""
    app()
