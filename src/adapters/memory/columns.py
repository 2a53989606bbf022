"""What the types of columns, and their usual checks, ask of every row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Final, TypeVar, cast

import attrs

from .table import Rule, is_encodable

Row = TypeVar("Row", bound=attrs.AttrsInstance)

_NUL_IN_JSON: Final = "22P05"
_NOT_JSON: Final = "22P02"


def text_rules(
    column: str, limit: int, text: Callable[[Row], str | None], not_empty: str | None = None
) -> tuple[Rule[Row], ...]:
    """A text of at most ``limit`` characters; with the name of a check, neither null nor empty."""
    fits = Rule[Row](f"{column} varchar({limit})", lambda row: len(text(row) or "") <= limit, "22001")
    return (fits,) if not_empty is None else (fits, Rule(not_empty, lambda row: bool(text(row))))


def attempts_rules(number: Callable[[Row], int], check: str) -> tuple[Rule[Row], ...]:
    """An integer that is not negative."""
    return (
        Rule("integer", lambda row: number(row) < 2**31, "22003"),
        Rule(check, lambda row: number(row) >= 0),
    )


def version_rules(number: Callable[[Row], int], check: str) -> tuple[Rule[Row], ...]:
    """A bigint that is not negative."""
    return (
        Rule("bigint", lambda row: number(row) < 2**63, "22003"),
        Rule(check, lambda row: number(row) >= 0),
    )


def json_rules(column: str, value: Callable[[Row], Mapping[str, object]]) -> tuple[Rule[Row], ...]:
    """An object that is JSON, and holds no text that PostgreSQL cannot."""

    def without(fault: str) -> Rule[Row]:
        return Rule(f"{column} jsonb", lambda row: fault not in _json_faults(dict(value(row))), fault)

    return (without(_NUL_IN_JSON), without(_NOT_JSON))


def _json_faults(whole: object) -> set[str]:
    faults = set[str]()
    values = [whole]
    while values:
        value = values.pop()
        match value:
            case str() if "\0" in value:
                faults.add(_NUL_IN_JSON)
            case str() if not is_encodable(value):
                faults.add(_NOT_JSON)
            case float() if not isfinite(value):
                faults.add(_NOT_JSON)
            case dict():
                items = cast("dict[str, object]", value)
                values += [*items.keys(), *items.values()]
            case list():
                values += cast("list[object]", value)
            case _:
                pass
    return faults
