"""``status``: how much waits, and who works on it."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Final

import typer

from ...application.periodic import run_periodically
from ...application.ports.errors import PortError
from ...application.stop_signal import StopSignal
from ..bootstrap import Application
from ..database import DatabaseUnusable
from ..output import Watched, show_each, watching
from ..summaries import status_facts
from .arguments import AsJson, ConfigFile, Debug
from .command import command_of

_INTERVAL: Final = timedelta(seconds=2)


def status(
    context: typer.Context,
    *,
    watch: Annotated[
        bool, typer.Option("--watch", help="Go on until Ctrl-C; with --json, one line each time.")
    ] = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
    debug: Debug = False,
) -> None:
    """Show each job's backlog, its last success as a worker on this host knows it, and who holds its lock."""

    async def watched(application: Application, stop: StopSignal) -> None:
        await application.database.ensure_usable()
        with watching(as_json=as_json) as show:
            await watch_status(application, stop, show)

    with command_of(context, config, debug=debug) as command:
        if watch:
            command.run_stoppably(watched)
        else:
            show_each(command.run(status_facts), as_json=as_json)


async def watch_status(application: Application, stop: StopSignal, show: Watched) -> None:
    """Show the status until a stop is requested; what fails while a database is down is shown, and asked for again."""

    async def look() -> None:
        at = application.clock.now().isoformat(timespec="seconds")
        try:
            facts = await status_facts(application)
        except (DatabaseUnusable, PortError) as error:
            show({}, at=at, error=str(error))
        else:
            show(facts, at=at, error=None)

    async def look_unless_stopped() -> None:
        await stop.cut_short(look())

    await run_periodically(look_unless_stopped, interval=_INTERVAL, clock=application.clock, stop=stop)
