"""Recordings in memory, and whatever answers a test wants to hear."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from attrs import define, field

from ...application.ports.errors import PortError
from ...domain.evidence import Evidence, Missing, Unreachable, Unsupported
from ..media.examination import examine
from ..media.object_key import is_object_key
from ..media.stored_object import StoredObject
from .switch import Phase, Step, Switch, let_others_run

LOOK: Final = "look at recording"
"""The operation's name in its steps."""


@define(eq=False)
class MemoryRecordingStorage:
    """See `RecordingStorage`. A `PortError` that the switch raises is a request, or an answer, that got lost."""

    _switch: Switch = field(default=let_others_run, kw_only=True, alias="switch")
    fault: Evidence | None = field(default=None, init=False)
    """While it is set, the answer to everything."""
    looks: list[str] = field(factory=list[str], init=False)
    """Every key that storage was asked for, in order."""
    _objects: dict[str, StoredObject | Evidence] = field(
        factory=dict[str, StoredObject | Evidence], init=False
    )

    def put(
        self, object_key: str, content: bytes, *, content_type: str | None, metadata: Mapping[str, str]
    ) -> None:
        """Store an object, which is examined at every look as in any storage."""
        self._objects[object_key] = StoredObject(
            object_key=object_key,
            size_bytes=len(content),
            content_type=content_type,
            metadata=dict(metadata),
            read=lambda offset, length: content[offset : offset + length],
        )

    def answer(self, object_key: str, evidence: Evidence) -> None:
        """Let every look at this key find that, without any object."""
        self._objects[object_key] = evidence

    def remove(self, object_key: str) -> None:
        """Let nothing be there."""
        self._objects.pop(object_key, None)

    async def look(self, object_key: str) -> Evidence:
        """See `RecordingStorage.look`."""
        self.looks.append(object_key)
        try:
            await self._switch(Step(LOOK, Phase.SENT))
        except PortError as error:
            return Unreachable(code=error.code, connection_failed=True)
        evidence = self._evidence(object_key)
        try:
            await self._switch(Step(LOOK, Phase.ANSWERED))
        except PortError as error:
            return Unreachable(code=error.code, connection_failed=False)
        return evidence

    def _evidence(self, object_key: str) -> Evidence:
        if self.fault is not None:
            return self.fault
        if not is_object_key(object_key):
            return Unsupported(code="INVALID_OBJECT_KEY")
        match self._objects.get(object_key):
            case None:
                return Missing()
            case StoredObject() as stored:
                return examine(stored)
            case evidence:
                return evidence
