"""``list``: a job's rows, as far as somebody wants to read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Final

import typer

from ...application.inspection import ListedRow
from ...application.ports.row_summary import RowState
from ..bootstrap import Application
from ..output import columns_of, show_rows
from ..row_facts import row_facts
from .arguments import AsJson, ConfigFile, Debug, JobName, known_job
from .command import command_of

_MOST_ROWS: Final = 100_000


class _Choice(StrEnum):
    DUE = "due"
    WAITING = "waiting"
    POISON = "poison"
    ALL = "all"


_STATES: Final[Mapping[_Choice, Sequence[RowState]]] = {
    _Choice.DUE: (RowState.DUE,),
    _Choice.WAITING: (RowState.WAITING,),
    _Choice.POISON: (RowState.POISON,),
    # What somebody waits for comes first, and the finished ones, which may be millions, last.
    _Choice.ALL: (RowState.DUE, RowState.WAITING, RowState.POISON, RowState.FINISHED),
}


def list_rows(
    context: typer.Context,
    job: JobName,
    *,
    state: Annotated[
        _Choice,
        typer.Option("--state", help="Only rows that a cycle takes now, takes later, or never takes."),
    ] = _Choice.ALL,
    limit: Annotated[int, typer.Option("--limit", min=1, max=_MOST_ROWS, help="At most so many rows.")] = 100,
    as_json: AsJson = False,
    config: ConfigFile = None,
    debug: Debug = False,
) -> None:
    """List a job's rows: those that are due, in the order of their turns, then those that wait, poison, finished."""

    async def listed(application: Application) -> Sequence[ListedRow]:
        return await application.jobs[name].inspection.listed(_STATES[state], limit=limit)

    with command_of(context, config, debug=debug) as command:
        name = known_job(job, command.settings)
        rows = [row_facts(row) for row in command.run(listed)]
        more = " (there may be more: --limit)" if len(rows) == limit else ""
        show_rows(f"{name}: rows listed: {len(rows)}{more}", columns_of(rows), rows, as_json=as_json)
