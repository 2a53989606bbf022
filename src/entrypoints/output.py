"""Results on standard output: a table for people or JSON for programs, of the same facts."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

Fact = None | bool | int | float | str
Facts = Mapping[str, Fact]

_WIDE = 500  # characters: output that is piped must not be cut to the width of a terminal that is not there


def show_facts(title: str, facts: Facts, *, as_json: bool) -> None:
    """Show one thing: an object in JSON, a table of names and values otherwise."""
    if as_json:
        _print_json(facts)
        return
    table = Table(show_header=False)
    for name, fact in facts.items():
        table.add_row(name, Text(_text(fact)))
    _print(title, table)


def show_rows(title: str, columns: Sequence[str], rows: Sequence[Facts], *, as_json: bool) -> None:
    """Show many small things: an array of objects in JSON, a table with ``columns`` otherwise."""
    if as_json:
        _print_json(rows)
        return
    table = Table(*columns)
    for row in rows:
        table.add_row(*(Text(_text(row[column])) for column in columns))
    _print(title, table if rows else None)


def show_each(titled: Mapping[str, Facts], *, as_json: bool) -> None:
    """Show a few big things: an array of objects in JSON, a table of names and values for each otherwise."""
    if as_json:
        _print_json(list(titled.values()))
        return
    for title, facts in titled.items():
        show_facts(title, facts, as_json=False)


def _text(fact: Fact) -> str:
    return "-" if fact is None else json.dumps(fact) if isinstance(fact, bool) else str(fact)


def _print(title: str, table: Table | None) -> None:
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = _WIDE
    console.print(title)
    if table is not None:
        console.print(table)


def _print_json(facts: Facts | Sequence[Facts]) -> None:
    sys.stdout.write(json.dumps(facts, indent=2, ensure_ascii=False) + "\n")
