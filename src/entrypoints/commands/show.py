"""``show``: one row with what belongs to it, without titles, names and contents."""

from __future__ import annotations

import typer

from ...application.inspection import NoSuchRow, ShownRow
from ..bootstrap import Application
from ..failures import Failure
from ..output import show_parts
from ..row_facts import shown_facts
from .arguments import AsJson, ConfigFile, Debug, JobName, RowId, known_job, row_id
from .command import command_of


def show(
    context: typer.Context,
    job: JobName,
    id: RowId,
    *,
    as_json: AsJson = False,
    config: ConfigFile = None,
    debug: Debug = False,
) -> None:
    """Show one row: its state and schedule, its chat or recording, and what the outside was told."""

    async def shown(application: Application) -> ShownRow:
        try:
            return await application.jobs[name].inspection.shown(wanted)
        except NoSuchRow as error:
            raise Failure(f"{wanted}: {error}") from error

    with command_of(context, config, debug=debug) as command:
        name, wanted = known_job(job, command.settings), row_id(id)
        facts, parts = shown_facts(command.run(shown))
        show_parts(f"{name}: {facts['id']}", {"job": name, **facts}, parts, as_json=as_json)
