"""Sees every commit and holds it against what must never happen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Generic, TypeVar
from uuid import UUID

from attrs import define, evolve, field, frozen
from messenger_jobs.adapters.memory.schema import MemberRow, MessengerDatabase, OutboxRow, ProvisionRow
from messenger_jobs.adapters.memory.table import Table
from messenger_jobs.application.ports.realtime_outbox import RealtimeNotice
from messenger_jobs.domain.call_recording import CallRecording
from messenger_jobs.domain.chat import Chat, ChatEvent, Participant
from messenger_jobs.domain.recording_finalize import RecordingFinalize

from tests.simulation.process import Process
from tests.simulation.world import World

Row = TypeVar("Row")


@frozen
class Violation:
    """Something that must never happen has happened. ``number`` is that of the contract's list."""

    number: int
    claim: str
    detail: str

    def __str__(self) -> str:
        return f"[{self.number}] {self.claim}: {self.detail}"


@frozen
class Snapshot:
    """All committed rows at one moment, by primary key."""

    provisions: Mapping[UUID, ProvisionRow]
    members: Mapping[tuple[UUID, UUID], MemberRow]
    chats: Mapping[UUID, Chat]
    participants: Mapping[UUID, Participant]
    feed: Mapping[UUID, ChatEvent]
    recordings: Mapping[UUID, CallRecording]
    entries: Mapping[UUID, RecordingFinalize]
    outbox: Mapping[int, OutboxRow]
    notices: Mapping[UUID, RealtimeNotice]


@frozen
class Step(Generic[Row]):
    """One row before and after a commit; None where it was not, or is not, there."""

    before: Row | None
    after: Row | None


@frozen
class Change:
    """A commit: what was before, what is after, and who made it (None: people, by other software)."""

    world: World
    before: Snapshot
    after: Snapshot
    by: Process | None
    now: datetime

    def steps(self, table: Callable[[Snapshot], Mapping[Any, Row]]) -> Iterator[Step[Row]]:
        """The rows of a table that are not as they were."""
        before, after = table(self.before), table(self.after)
        if before is after:
            return
        for key, row in after.items():
            old = before.get(key)
            if old is not row:
                yield Step(old, row)
        for key, row in before.items():
            if key not in after:
                yield Step(row, None)

    def new_messages(self) -> list[OutboxRow]:
        """Messages that this commit has added."""
        return [
            step.after
            for step in self.steps(lambda rows: rows.outbox)
            if step.before is None and step.after is not None
        ]


@frozen
class Invariant:
    """A sentence that holds for every commit; ``broken`` yields whatever contradicts it."""

    number: int
    claim: str
    broken: Callable[[Change], Iterator[str]]
    tables: frozenset[str]
    """Only commits that touch one of them can break it."""


@define(eq=False)
class Monitor:
    """Compares what is committed with what it saw last, and lets the invariants judge the difference."""

    world: World
    invariants: tuple[Invariant, ...]
    on_commit: Callable[[Change], None] = field(default=lambda change: None)
    violations: list[Violation] = field(factory=list[Violation], init=False)
    commits: int = field(default=0, init=False)
    _tables: dict[str, Table[Any]] = field(init=False)
    _rows: dict[str, list[Any]] = field(init=False)
    seen: Snapshot = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._tables = _tables(self.world.database)
        self._rows = {name: table.rows() for name, table in self._tables.items()}
        self.seen = Snapshot(**self._by_key(self._tables))

    def observe(self, by: Process | None) -> None:
        """Judge what was committed since the last call, which is one commit."""
        touched = None
        for name, table in self._tables.items():
            rows = table.rows()
            if rows != self._rows[name]:
                self._rows[name] = rows
                touched = {name} if touched is None else touched | {name}
        if touched is not None:
            self._judge(touched, by)

    def violate(self, number: int, claim: str, detail: str) -> None:
        """Take note of something that was seen elsewhere than in a commit."""
        self.violations.append(Violation(number, claim, detail))

    def _judge(self, touched: set[str], by: Process | None) -> None:
        before = self.seen
        self.seen = evolve(before, **self._by_key(touched))
        self.commits += 1
        change = Change(self.world, before, self.seen, by, self.world.clock.now())
        self.on_commit(change)
        for invariant in self.invariants:
            if not invariant.tables.isdisjoint(touched):
                for detail in invariant.broken(change):
                    self.violate(invariant.number, invariant.claim, detail)

    def _by_key(self, names: Iterable[str]) -> dict[str, Any]:
        tables = {name: self._tables[name].key.value for name in names}
        return {name: {key(row): row for row in self._rows[name]} for name, key in tables.items()}


def _tables(database: MessengerDatabase) -> dict[str, Table[Any]]:
    return {
        "provisions": database.provisions,
        "members": database.members,
        "chats": database.chats,
        "participants": database.participants,
        "feed": database.chat_events,
        "recordings": database.recordings,
        "entries": database.finalizations,
        "outbox": database.outbox,
        "notices": database.realtime_outbox,
    }
