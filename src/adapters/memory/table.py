"""A table: committed rows, what open transactions have staged, and the constraints that hold for both."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cache
from typing import Any, Generic, TypeVar

import attrs
from attrs import frozen

from ...application.ports.errors import DataRejected

Row = TypeVar("Row", bound=attrs.AttrsInstance)


class ConstraintViolation(DataRejected):
    """The data breaks the named constraint; ``code`` is the SQLSTATE that PostgreSQL gives for it."""

    def __init__(self, sqlstate: str, constraint: str) -> None:
        super().__init__(sqlstate, f"the data violates {constraint}")
        self.constraint = constraint


@frozen(eq=False)
class Unique(Generic[Row]):
    """No two rows have the same value; None, like SQL's null, collides with nothing."""

    name: str
    value: Callable[[Row], Hashable]


@frozen(eq=False)
class Rule(Generic[Row]):
    """What must hold for every row by itself: a check, or the bounds of a column's type."""

    name: str
    holds: Callable[[Row], bool]
    sqlstate: str = "23514"


@frozen(eq=False)
class Reference(Generic[Row]):
    """The value is None, or the primary key of a row of another table."""

    name: str
    value: Callable[[Row], Hashable]
    to: Table[Any]


class Table(Generic[Row]):
    """Rows are immutable attrs objects; a write replaces a whole row.

    Who reads is an open transaction, which sees committed rows and its own writes, or None, who sees committed rows
    only. Writing goes through `Transaction`, which holds the locks that make it safe.
    """

    def __init__(
        self,
        name: str,
        *,
        key: Unique[Row],
        unique: tuple[Unique[Row], ...] = (),
        rules: tuple[Rule[Row], ...] = (),
        references: tuple[Reference[Row], ...] = (),
    ) -> None:
        self.name = name
        self.key = key
        self.unique = (key, *unique)
        self.references = references
        self.referred_to = False
        self.publications = 0
        """How often committed rows have changed."""
        for reference in references:
            reference.to.referred_to = True
        self._rules = rules
        self._committed: dict[Hashable, Row] = {}
        self._keys_by_value: dict[str, dict[Hashable, Hashable]] = {unique.name: {} for unique in self.unique}
        self._staged: dict[object, dict[Hashable, Row | None]] = {}

    def get(self, key: Hashable, reader: object = None) -> Row | None:
        """The row with this primary key."""
        staged = self._staged.get(reader)
        return staged[key] if staged and key in staged else self._committed.get(key)

    def find(self, unique: Unique[Row], value: Hashable, reader: object = None) -> Row | None:
        """The row with this value of one of the table's unique keys."""
        committed = self._keys_by_value[unique.name].get(value)
        staged = self._staged.get(reader)
        if not staged:
            return None if committed is None else self._committed[committed]
        for key in (committed, *staged):
            row = self.get(key, reader)
            if row is not None and unique.value(row) == value:
                return row
        return None

    def rows(self, reader: object = None) -> list[Row]:
        """All rows, in the order in which they were written last."""
        staged = self._staged.get(reader)
        if not staged:
            return list(self._committed.values())
        kept = [row for key, row in self._committed.items() if key not in staged]
        return kept + [row for row in staged.values() if row is not None]

    def by_key(self) -> dict[Hashable, Row]:
        """The committed rows by primary key, in the order in which they were written last."""
        return dict(self._committed)

    def check(self, row: Row) -> None:
        """Raise `ConstraintViolation` unless the row by itself may stand in the table."""
        if not _is_storable_text(row):
            raise ConstraintViolation("22021", f"the encoding of {self.name}")
        for rule in self._rules:
            if not rule.holds(row):
                raise ConstraintViolation(rule.sqlstate, rule.name)

    def stage(self, writer: object, key: Hashable, row: Row | None) -> Callable[[], None]:
        """Write, or with None delete, for the writer's eyes only; the result undoes it."""
        staged = self._staged.setdefault(writer, {})
        known, before = key in staged, staged.get(key)
        staged[key] = row

        def undo() -> None:
            if known:
                staged[key] = before
            else:
                del staged[key]

        return undo

    def publish(self, writer: object) -> None:
        """Show everybody what the writer has staged."""
        staged = self._staged.pop(writer, {})
        self.publications += bool(staged)
        for key in staged:
            self._index(self._committed.pop(key, None), present=False)
        for key, row in staged.items():
            if row is not None:
                self._committed[key] = row
                self._index(row, present=True)

    def discard(self, writer: object) -> None:
        """Forget what the writer has staged."""
        self._staged.pop(writer, None)

    def _index(self, row: Row | None, *, present: bool) -> None:
        for unique in self.unique:
            value = None if row is None else unique.value(row)
            if row is None or value is None:
                continue
            if present:
                self._keys_by_value[unique.name][value] = self.key.value(row)
            else:
                del self._keys_by_value[unique.name][value]


def is_encodable(text: str) -> bool:
    """Whether it is free of lone surrogates, which UTF-8 cannot express."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_storable_text(row: object) -> bool:
    """Whether every text in it can be stored; JSON columns, being mappings, have rules of their own."""
    values = [row]
    while values:
        value = values.pop()
        if isinstance(value, str):
            if "\0" in value or not is_encodable(value):
                return False
            continue
        names = _attributes(type(value))  # type: ignore[arg-type]  # mypy takes a class of unknown kind for unhashable
        if names:
            values += [getattr(value, name) for name in names]
    return True


@cache
def _attributes(kind: type) -> tuple[str, ...]:
    return tuple(attribute.name for attribute in attrs.fields(kind)) if attrs.has(kind) else ()
