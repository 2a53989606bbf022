"""Sees every commit and holds it against what must never happen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar
from uuid import UUID

from attrs import define, field, frozen
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


class Change:
    """A commit: what was before, what is after, and who made it (None: people, by other software)."""

    def __init__(self, world: World, before: Snapshot, after: Snapshot, by: Process | None) -> None:
        self.world = world
        self.before = before
        self.after = after
        self.by = by
        self.now = world.clock.now()
        self.provisions = _steps(before.provisions, after.provisions)
        self.chats = _steps(before.chats, after.chats)
        self.participants = _steps(before.participants, after.participants)
        self.recordings = _steps(before.recordings, after.recordings)
        self.entries = _steps(before.entries, after.entries)
        self.outbox = _steps(before.outbox, after.outbox)
        self.new_messages = [
            step.after for step in self.outbox if step.before is None and step.after is not None
        ]


def _steps(before: Mapping[Any, Row], after: Mapping[Any, Row]) -> Sequence[Step[Row]]:
    """The rows of a table that are not as they were."""
    if before is after:
        return ()
    written = [Step(old, row) for key, row in after.items() if (old := before.get(key)) is not row]
    return written + [Step(row, None) for key, row in before.items() if key not in after]


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
    seen: Snapshot = field(init=False)
    _tables: dict[str, Table[Any]] = field(init=False)
    _rows: dict[str, dict[Any, Any]] = field(init=False)
    _publications: dict[str, int] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._tables = _tables(self.world.database)
        self._rows = {name: table.by_key() for name, table in self._tables.items()}
        self._publications = {name: table.publications for name, table in self._tables.items()}
        self.seen = Snapshot(**self._rows)

    def observe(self, by: Process | None) -> None:
        """Judge what was committed since the last call, which is one commit."""
        known = self._publications
        touched = [name for name, table in self._tables.items() if table.publications != known[name]]
        for name in touched:
            table = self._tables[name]
            self._rows[name], known[name] = table.by_key(), table.publications
        if touched:
            self._judge(touched, by)

    def violate(self, number: int, claim: str, detail: str) -> None:
        """Take note of something that was seen elsewhere than in a commit."""
        self.violations.append(Violation(number, claim, detail))

    def _judge(self, touched: Sequence[str], by: Process | None) -> None:
        before, self.seen = self.seen, Snapshot(**self._rows)
        self.commits += 1
        change = Change(self.world, before, self.seen, by)
        self.on_commit(change)
        for invariant in self.invariants:
            if not invariant.tables.isdisjoint(touched):
                for detail in invariant.broken(change):
                    self.violate(invariant.number, invariant.claim, detail)


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
