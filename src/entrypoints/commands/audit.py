"""``audit``: holds the database against what must never happen."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from ...adapters.postgres.audit import Finding
from ..bootstrap import Application
from ..failures import Failure
from ..output import Facts, show_rows
from .arguments import AsJson, ConfigFile, Debug
from .command import command_of


def audit(
    context: typer.Context, *, as_json: AsJson = False, config: ConfigFile = None, debug: Debug = False
) -> None:
    """Hold the database against what must never happen; reads all of it, changes nothing. Fails when something did."""
    with command_of(context, config, debug=debug) as command:
        findings = command.run(_findings)
        broken = [finding for finding in findings if finding.violations]
        show_rows(
            f"what must never happen: {len(broken) or 'none'} of {len(findings)} invariants broken",
            ("invariant", "violations", "examples"),
            [_facts(finding) for finding in findings],
            as_json=as_json,
        )
        if broken:
            raise Failure(
                f"{len(broken)} of {len(findings)} invariants broken: {'; '.join(map(_told, broken))}"
            )


async def _findings(application: Application) -> Sequence[Finding]:
    settings = application.settings
    return await application.database.audit(
        max_attempts=settings.chat_provision_retry.max_attempts,
        max_finalize_attempts=settings.recording_finalize_retry.max_attempts,
        since=application.clock.now() - settings.outbox_relay.retention,
    )


def _facts(finding: Finding) -> Facts:
    return {
        "invariant": finding.claim,
        "violations": finding.violations,
        "examples": " ".join(finding.sample) or None,
    }


def _told(finding: Finding) -> str:
    return f"{finding.claim} (not true of {finding.violations}, such as {', '.join(finding.sample)})"
