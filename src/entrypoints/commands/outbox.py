"""``outbox``: what waits for an operator in the outbox, and what he does about it."""

from __future__ import annotations

from typing import Annotated

import typer

from ...application.ports.outbox_queue import DeadMessage
from ...application.requeue_dead_messages import RequeuedMessages
from ..bootstrap import Application
from ..failures import WrongUsage
from ..output import Facts, show_facts, show_rows
from .arguments import AsJson, ConfigFile, Debug, DryRun
from .command import command_of
from .requeue import ensure_named, show_requeued

outbox = typer.Typer(
    help="Parked messages of the outbox, and the pruning of published ones.", no_args_is_help=True
)

_MessageIds = Annotated[
    list[str] | None,
    typer.Argument(metavar="[ID]...", help="Numbers of messages, as `outbox list` shows them."),
]
_OnlyError = Annotated[
    str | None, typer.Option("--error", metavar="CODE", help="Only messages with this last error.")
]


@outbox.command("list")
def list_dead(
    context: typer.Context,
    *,
    error: _OnlyError = None,
    as_json: AsJson = False,
    config: ConfigFile = None,
    debug: Debug = False,
) -> None:
    """List the messages that can never be sent as they are, without their payloads."""

    async def dead(application: Application) -> list[DeadMessage]:
        return [message async for message in application.outbox.dead.all(error=error)]

    with command_of(context, config, debug=debug) as command:
        messages = command.run(dead)
        show_rows(
            f"parked messages: {len(messages)}",
            ("id", "event_id", "topic", "message_key", "attempts", "error_code", "dead_at"),
            [_facts(message) for message in messages],
            as_json=as_json,
        )


@outbox.command()
def requeue(
    context: typer.Context,
    ids: _MessageIds = None,
    *,
    everything: Annotated[bool, typer.Option("--all", help="All parked messages.")] = False,
    error: _OnlyError = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
    debug: Debug = False,
) -> None:
    """Let parked messages be sent again; they may arrive behind later ones of their key."""

    async def requeued(application: Application) -> RequeuedMessages:
        requeue_dead = application.outbox.requeue
        if everything:
            return await requeue_dead.all(error=error, dry_run=dry_run)
        return await requeue_dead.messages(numbers, dry_run=dry_run)

    with command_of(context, config, debug=debug) as command:
        ensure_named("outbox requeue", ids, everything=everything, error=error)
        numbers = [_number(text) for text in ids or ()]
        report = command.run(requeued)
        title = f"messages that {'would be' if dry_run else 'are'} sent again: {len(report.requeued)}"
        show_requeued(title, report.requeued, report.refused, as_json=as_json)


@outbox.command()
def prune(
    context: typer.Context, *, as_json: AsJson = False, config: ConfigFile = None, debug: Debug = False
) -> None:
    """Delete messages that were published longer ago than they are kept; the relay does so by itself."""

    async def pruned(application: Application) -> int:
        return await application.outbox.prune.all()

    with command_of(context, config, debug=debug) as command:
        number = command.run(pruned)
        retention = command.settings.outbox_relay.retention
        show_facts(
            f"published messages deleted: {number}",
            {"pruned": number, "retention_seconds": round(retention.total_seconds())},
            as_json=as_json,
        )


def _facts(message: DeadMessage) -> Facts:
    return {
        "id": message.id,
        "event_id": message.event_id,
        "topic": message.topic,
        "message_key": message.message_key,
        "attempts": message.attempts,
        "error_code": message.error_code,
        "dead_at": message.dead_at.isoformat(),
    }


def _number(text: str) -> int:
    if not text.isdecimal() or len(text) > 18:
        raise WrongUsage(f"{text} is no message's number: `outbox list` shows them")
    return int(text)
