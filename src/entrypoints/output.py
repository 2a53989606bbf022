"""Results on standard output: a table for people or JSON for programs, of the same facts."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
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
    _print(title, _facts_table(facts))


def show_rows(title: str, columns: Sequence[str], rows: Sequence[Facts], *, as_json: bool) -> None:
    """Show many small things: an array of objects in JSON, a table with ``columns`` otherwise."""
    if as_json:
        _print_json(rows)
        return
    table = Table(*columns)
    for row in rows:
        table.add_row(*(Text(_text(row[column])) for column in columns))
    _print(title, table if rows else None)


def show_parts(
    title: str, facts: Facts, parts: Mapping[str, Sequence[Facts] | None], *, as_json: bool
) -> None:
    """Show one thing with what belongs to it: one object in JSON, several tables otherwise.

    A part is None when it is not known.
    """
    if as_json:
        _print_json({**facts, **parts})
        return
    show_facts(title, facts, as_json=False)
    for name, rows in parts.items():
        if rows is None:
            _print(f"{name}: not known, they could not be found in time", None)
        else:
            show_rows(f"{name}: {len(rows)}", columns_of(rows), rows, as_json=False)


def columns_of(rows: Sequence[Facts]) -> tuple[str, ...]:
    """The names of what the rows tell, which all of them do."""
    return tuple(rows[0]) if rows else ()


def show_each(titled: Mapping[str, Facts], *, as_json: bool) -> None:
    """Show a few big things: an array of objects in JSON, a table of names and values for each otherwise."""
    if as_json:
        _print_json(list(titled.values()))
        return
    for title, facts in titled.items():
        show_facts(title, facts, as_json=False)


@contextmanager
def watching(*, as_json: bool) -> Generator[Watched]:
    """Shows what its value is called with: in place on a terminal, as one line of JSON, or one below the other.

    ``at`` is the time in words, ``error`` the sentence that stands for what could not be found out this time.
    """
    console = _console()
    with (
        Live(console=console, auto_refresh=False)
        if console.is_terminal and not as_json
        else nullcontext() as live
    ):

        def show(titled: Mapping[str, Facts], *, at: str, error: str | None) -> None:
            if as_json:
                line = {"at": at, "jobs": list(titled.values()), "error": error}
                sys.stdout.write(json.dumps(line, ensure_ascii=False) + "\n")
                sys.stdout.flush()
                return
            parts: list[RenderableType] = [Text(at if error is None else f"{at} {error}")]
            for title, facts in titled.items():
                parts += [Text(title), _facts_table(facts)]
            if live is None:
                console.print(Group(*parts))
            else:
                live.update(Group(*parts), refresh=True)

        yield show


class Watched(Protocol):
    """See `watching`."""

    def __call__(self, titled: Mapping[str, Facts], *, at: str, error: str | None) -> None:
        """Show this now."""
        ...


def _facts_table(facts: Facts) -> Table:
    table = Table(show_header=False)
    for name, fact in facts.items():
        table.add_row(name, Text(_text(fact)))
    return table


def _text(fact: Fact) -> str:
    return "-" if fact is None else json.dumps(fact) if isinstance(fact, bool) else str(fact)


def _print(title: str, table: Table | None) -> None:
    console = _console()
    console.print(title)
    if table is not None:
        console.print(table)


def _console() -> Console:
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = _WIDE
    return console


def _print_json(facts: Mapping[str, object] | Sequence[Facts]) -> None:
    sys.stdout.write(json.dumps(facts, indent=2, ensure_ascii=False) + "\n")
