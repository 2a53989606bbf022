"""``explain``: why a row is or is not taken now, and when."""

from __future__ import annotations

import typer

from ...application.inspection import NoSuchRow
from ..bootstrap import Application
from ..failures import Failure
from ..output import Facts, show_facts
from ..row_facts import explained_facts
from .arguments import AsJson, ConfigFile, Debug, JobName, RowId, known_job, row_id
from .command import command_of


def explain(
    context: typer.Context,
    job: JobName,
    id: RowId,
    *,
    as_json: AsJson = False,
    config: ConfigFile = None,
    debug: Debug = False,
) -> None:
    """Say why a cycle that starts now takes this row, or leaves it, and which one will take it."""

    async def explained(application: Application) -> Facts:
        scheduled = application.jobs[name]
        try:
            row = await scheduled.inspection.explained(wanted)
        except NoSuchRow as error:
            raise Failure(f"{wanted}: {error}") from error
        cycle = await application.database.lock_holder(name)
        return explained_facts(name, row, scheduled.options, cycle)

    with command_of(context, config, debug=debug) as command:
        name, wanted = known_job(job, command.settings), row_id(id)
        facts = command.run(explained)
        show_facts(f"{facts['id']}: {facts['explanation']}", facts, as_json=as_json)
