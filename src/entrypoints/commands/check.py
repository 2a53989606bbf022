"""``check``: whether everything that the jobs need is there and set up."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from ...application.ports.check import CheckedItem, Verdict
from ..bootstrap import Application
from ..failures import Failure
from ..output import Facts, show_rows
from .arguments import AsJson, ConfigFile, Debug
from .command import command_of


def check(
    context: typer.Context, *, as_json: AsJson = False, config: ConfigFile = None, debug: Debug = False
) -> None:
    """Look at the database, its schema, the lock's session, storage and Kafka. Fails if something is wrong."""
    with command_of(context, config, debug=debug) as command:
        items = command.run(_checked, whatever_the_database=True)
        wrong = [item for item in items if item.verdict is Verdict.FAILED]
        show_rows(
            f"checks failed: {len(wrong) or 'none'} of {len(items)}",
            ("item", "verdict", "sentence", "code"),
            [_facts(item) for item in items],
            as_json=as_json,
        )
        if wrong:
            others = "" if len(wrong) == 1 else f" (and {len(wrong) - 1} more checks failed)"
            raise Failure(f"{wrong[0].item}: {wrong[0].sentence}{others}")


async def _checked(application: Application) -> Sequence[CheckedItem]:
    return [item for look in application.checks() for item in await look()]


def _facts(item: CheckedItem) -> Facts:
    return {
        "item": item.item,
        "verdict": item.verdict.value,
        "sentence": item.sentence,
        "code": item.code,
    }
