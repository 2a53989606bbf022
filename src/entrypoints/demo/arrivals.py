"""What arrived of the events, in the file that stands for the broker, beside what was committed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, LiteralString, cast

from attrs import frozen

COMMITTED: Final[LiteralString] = (
    "select event_id::text, message_key from messenger.outbox_messages order by id"
)
WAITING: Final[LiteralString] = (
    "select count(*) from messenger.outbox_messages where published_at is null and dead_at is null"
)
TOTAL: Final[LiteralString] = "select count(*) from messenger.outbox_messages"


@frozen(kw_only=True)
class Arrivals:
    """``repeated`` counts what came again, which carries the same ``event-id``; ``disordered`` counts keys."""

    events: int
    repeated: int
    missing: int
    uncommitted: int
    disordered: int

    @property
    def as_promised(self) -> bool:
        """Everything at least once, nothing else, and each key in the order of its commits."""
        return (self.missing, self.uncommitted, self.disordered) == (0, 0, 0)


def arrivals(file: Path, committed: Sequence[tuple[str, str]]) -> Arrivals:
    """Hold the lines of ``file`` against the committed events, given as ``(event_id, key)`` in the order of commits."""
    lines = [_event_id(line) for line in file.read_text(encoding="utf-8").splitlines()]
    first = [*dict.fromkeys(lines)]
    wanted = dict(committed)
    return Arrivals(
        events=len(first),
        repeated=len(lines) - len(first),
        missing=len(wanted.keys() - first),
        uncommitted=len({*first} - wanted.keys()),
        disordered=_disordered(first, committed),
    )


def _disordered(first: Sequence[str], committed: Sequence[tuple[str, str]]) -> int:
    key_of = dict(committed)
    arrived: dict[str, list[str]] = {}
    for event_id in first:
        arrived.setdefault(key_of.get(event_id, ""), []).append(event_id)
    sent: dict[str, list[str]] = {}
    for event_id, key in committed:
        sent.setdefault(key, []).append(event_id)
    return sum(arrived.get(key, events) != events for key, events in sent.items())


def _event_id(line: str) -> str:
    headers = cast("list[list[Any]]", json.loads(line)["headers"])
    return str(dict(headers)["event-id"])
