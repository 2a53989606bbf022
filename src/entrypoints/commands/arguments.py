"""The arguments and options that commands share, and what their texts mean."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated
from uuid import UUID

import typer

from ...application.outbox_relay import OUTBOX_RELAY
from ...application.recording_finalize_retry import RECORDING_FINALIZE_RETRY
from ..bootstrap import JOB_NAMES, Application, job_names
from ..failures import WrongUsage
from ..messaging import LOOP_NAMES
from ..settings import Settings, variable

JobName = Annotated[str, typer.Argument(metavar="JOB", help=f"One of: {', '.join(JOB_NAMES)}.")]
RunnableName = Annotated[
    str, typer.Argument(metavar="JOB", help=f"One of: {', '.join((*JOB_NAMES, OUTBOX_RELAY))}.")
]
JobNames = Annotated[
    list[str] | None,
    typer.Option(
        "--job",
        metavar="JOB",
        help=f"Run only this one of {', '.join((*JOB_NAMES, *LOOP_NAMES))}; may be repeated.",
    ),
]
RowId = Annotated[
    str, typer.Argument(metavar="ID", help="Id of the row itself, of its deal, or of its recording.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done and change nothing.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="File of settings, NAME=value a line.")
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


def known_job(job: str, settings: Settings) -> str:
    """The name, if there is such a job with these settings; raises `WrongUsage`."""
    return _known(job, job_names(settings))


def parts_to_run(names: Sequence[str] | None, application: Application) -> list[str]:
    """The named parts of a worker, all of them where none is named; raises `WrongUsage` for one that is not there."""
    there = [*application.jobs, *(loop.name for loop in application.messaging.loops)]
    return [_known(name, there) for name in dict.fromkeys(names or there)]


def runnable_once(name: str, application: Application) -> str:
    """The name, if ``run-once`` can run it; raises `WrongUsage`."""
    relay = application.messaging.relay
    return _known(name, [*application.jobs] if relay is None else [*application.jobs, OUTBOX_RELAY])


def _known(name: str, available: Sequence[str]) -> str:
    if name in available:
        return name
    if name == RECORDING_FINALIZE_RETRY:
        raise WrongUsage(f"{name} runs only where {variable('recordings_enabled')} is true")
    if name in LOOP_NAMES and OUTBOX_RELAY not in available:
        raise WrongUsage(f"{name} runs only where {variable('kafka_bootstrap_servers')} is set")
    raise WrongUsage(f"there is no job {name}; the jobs are: {', '.join(available)}")


def row_id(text: str) -> UUID:
    """The id that the text is; raises `WrongUsage`."""
    try:
        return UUID(text)
    except ValueError:
        raise WrongUsage(f"{text} is no id: ids are UUIDs") from None
