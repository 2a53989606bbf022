"""Statements and commits that a cycle costs, counted by the server."""

from __future__ import annotations

from attrs import frozen

from benchmarks import provision_cycle
from benchmarks.server import execute, scalar

_STATEMENTS = """
    select coalesce(sum(calls), 0)::bigint from pg_stat_statements
    where query ilike '%messenger.%' or query ilike '%advisory%' or query ilike '%pg_locks%'
"""
_WRITING_COMMITS = """
    select coalesce(sum(calls), 0)::bigint from pg_stat_statements
    where query ilike '%update messenger.deal_chat_provisions%'
"""


@frozen(kw_only=True)
class StatementCount:
    """Statements of the job and of its lock, by row and by a tick without rows; every one is a round trip."""

    per_row: float
    commits_per_row: float
    per_empty_tick: int


def measure(url: str, rows: int) -> StatementCount:
    """Run a cycle over ``rows`` fresh rows, and another one over none."""
    execute(url, f"call bench.fill_queue({rows})", "analyze", "select pg_stat_statements_reset()")
    provision_cycle.rows_per_second(url, rows=rows, concurrency=8)
    statements, commits = scalar(url, _STATEMENTS), scalar(url, _WRITING_COMMITS)
    execute(url, "select pg_stat_statements_reset()")
    provision_cycle.rows_per_second(url, rows=0, concurrency=8)
    return StatementCount(
        per_row=statements / rows, commits_per_row=commits / rows, per_empty_tick=scalar(url, _STATEMENTS)
    )
