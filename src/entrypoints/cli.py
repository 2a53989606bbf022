"""The command ``messenger-jobs``. Results go to standard output, logs and errors to standard error.

Exit codes: 0 done, 1 failed, 2 wrong usage or settings.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn, Protocol, TypeVar
from uuid import UUID

import structlog
import typer
from attrs import frozen
from typer.core import TyperGroup

from ..adapters.postgres.migrations import migrate as apply_migrations
from ..adapters.telemetry.logging import LogFormat, configure_logging
from ..application.cycle_report import CycleEnd, CycleReport
from ..application.requeue_report import RequeueReport
from ..application.stop_signal import StopSignal
from . import event_loop
from .bootstrap import JOB_NAMES, Application, bootstrap, job_names
from .failures import Failure, WrongUsage, tell, told_in_one_sentence
from .output import show_each, show_facts, show_rows
from .settings import Settings, likely_typos, load_settings, variable
from .signals import stopping_on_signals
from .summaries import CYCLE_ENDS, cycle_facts, requeue_rows, status_facts
from .worker import run_worker

T = TypeVar("T")

JobName = Annotated[str, typer.Argument(metavar="JOB", help=f"One of: {', '.join(JOB_NAMES)}.")]
JobNames = Annotated[
    list[str] | None, typer.Option("--job", metavar="JOB", help="Run only this job; may be repeated.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done and change nothing.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="File of settings, NAME=value a line.")
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


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


class Composition(Protocol):
    """How the application of some settings is built: `bootstrap`, unless a test or a host hands in its own."""

    def __call__(self, settings: Settings) -> AbstractAsyncContextManager[Application]:
        """Build it; closed with the context."""
        ...


@frozen(kw_only=True)
class _Command:
    settings: Settings
    compose: Composition

    def run(self, work: Callable[[Application], Awaitable[T]]) -> T:
        """Do ``work`` on a usable database."""

        async def composed() -> T:
            async with self.compose(self.settings) as application:
                await application.database.ensure_usable()
                return await work(application)

        return event_loop.run(composed())

    def run_stoppably(self, work: Callable[[Application, StopSignal], Awaitable[T]]) -> T:
        """Do ``work`` until it ends or a signal ends it."""

        async def composed(stop: StopSignal) -> T:
            async with self.compose(self.settings) as application:
                return await work(application, stop)

        return event_loop.run(stopping_on_signals(composed, grace=self.settings.shutdown_grace))


@contextmanager
def _command(
    context: typer.Context, config: Path | None, *, debug: bool, log_format: LogFormat | None = None
) -> Generator[_Command]:
    """What every command begins with: settings and logs; and ends with: errors as sentences."""
    with told_in_one_sentence(debug=debug):
        settings = load_settings(os.environ, config)
        configure_logging(log_format or settings.log_format, settings.log_level)
        for name, meant in likely_typos(os.environ, config).items():
            structlog.get_logger(__name__).warning("unknown setting", name=name, did_you_mean=meant)
        yield _Command(settings=settings, compose=context.obj or bootstrap)


@app.command()
def worker(
    context: typer.Context,
    *,
    job: JobNames = None,
    as_json: AsJson = False,
    config: ConfigFile = None,
    debug: Debug = False,
) -> None:
    """Run the periodic jobs until SIGTERM or SIGINT; a second signal stops at once."""
    # A worker's only output are its logs.
    with _command(context, config, debug=debug, log_format="json" if as_json else None) as command:
        available = job_names(command.settings)
        names = [_known(name, command.settings) for name in dict.fromkeys(job or available)]
        command.run_stoppably(lambda application, stop: run_worker(application, names, stop))


@app.command()
def run_once(
    context: typer.Context,
    job: JobName,
    *,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
    debug: Debug = False,
) -> None:
    """Run one cycle of a job and print what it came to."""

    async def cycle(application: Application, stop: StopSignal) -> CycleReport:
        await application.database.ensure_usable()
        scheduled = application.jobs[name]
        return await (scheduled.rehearse(stop) if dry_run else scheduled.run(stop))

    with _command(context, config, debug=debug) as command:
        name = _known(job, command.settings)
        report = command.run_stoppably(cycle)
        facts = cycle_facts(report, dry_run=dry_run)
        show_facts(f"{name}: {CYCLE_ENDS[report.end]}", facts, as_json=as_json)
        if report.end in (CycleEnd.ABORTED, CycleEnd.LOCK_LOST):
            raise Failure(f"{name}: {CYCLE_ENDS[report.end]} ({report.error_code or report.end.value})")


@app.command()
def migrate(
    context: typer.Context, *, as_json: AsJson = False, config: ConfigFile = None, debug: Debug = False
) -> None:
    """Bring the database's schema up to date; harmless when it is."""
    with _command(context, config, debug=debug) as command:
        applied = apply_migrations(command.settings.database_url)
        show_rows(
            f"migrations applied: {len(applied)}",
            ("migration",),
            [{"migration": migration} for migration in applied],
            as_json=as_json,
        )


@app.command()
def status(
    context: typer.Context, *, as_json: AsJson = False, config: ConfigFile = None, debug: Debug = False
) -> None:
    """Show each job's backlog, its last success as a worker on this host knows it, and who holds its lock."""
    with _command(context, config, debug=debug) as command:
        show_each(command.run(status_facts), as_json=as_json)


@app.command()
def requeue(
    context: typer.Context,
    job: JobName,
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ID]...", help="Ids of provisions, of finalizations, or of recordings."),
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

    with _command(context, config, debug=debug) as command:
        name = _known(job, command.settings)
        if everything == bool(ids):
            raise WrongUsage("requeue needs either ids or --all")
        if error is not None and not everything:
            raise WrongUsage("--error goes with --all")
        rows = [_id(text) for text in ids or ()]
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
    """Watch stuck deal chats become ready, on a PostgreSQL of its own."""
    with told_in_one_sentence(debug=debug):
        from .demo.presentation import run  # noqa: PLC0415 - nobody else needs what it needs

        raise typer.Exit(run(as_json=as_json))


def main() -> None:
    """The console script."""
    app()


def _known(job: str, settings: Settings) -> str:
    available = job_names(settings)
    if job in available:
        return job
    if job in JOB_NAMES:
        raise WrongUsage(f"{job} runs only where {variable('recordings_enabled')} is true")
    raise WrongUsage(f"there is no job {job}; the jobs are: {', '.join(available)}")


def _id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise WrongUsage(f"{text} is no id: ids are UUIDs") from None
