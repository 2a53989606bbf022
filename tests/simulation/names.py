"""What rows are called in stories: their ids are small numbers, a range for each kind."""

from __future__ import annotations

from functools import cache
from typing import Final
from uuid import UUID

from tests.support.builders import some_id

DEAL: Final = 100
PROVISION: Final = 200
CHAT: Final = 300
USER: Final = 400
RECORDING: Final = 500
ENTRY: Final = 600
SESSION: Final = 700
FILE: Final = 800
PARTICIPANT: Final = 900
CORRELATION: Final = 1000

_KINDS: Final = {
    DEAL: "deal",
    PROVISION: "provision",
    CHAT: "chat",
    USER: "user",
    RECORDING: "recording",
    ENTRY: "finalization",
    SESSION: "session",
    FILE: "file",
    PARTICIPANT: "participant",
    CORRELATION: "message",
}


@cache
def id_of(kind: int, number: int) -> UUID:
    """The id of the numbered row of a kind."""
    return some_id(kind + number)


def named(id_: UUID | None) -> str:
    """For people: ``deal 1``; ids that a process has made are told apart by their last digits."""
    if id_ is None:
        return "nothing"
    kind = _KINDS.get(id_.int // 100 * 100)
    return f"id …{id_.int % 10_000}" if kind is None else f"{kind} {id_.int % 100}"
