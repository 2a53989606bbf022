"""Which message of PostgreSQL is which of the model's: numbers of what was rolled back are lost, here or there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define, evolve, field
from messenger_jobs.adapters.memory.schema import OutboxRow
from messenger_jobs.application.ports.outbox_queue import (
    DeadMessage,
    FailedMessage,
    PublishedMessage,
    QueuedMessage,
)


@define(eq=False)
class MessageIds:
    """PostgreSQL's number of each committed message, by the model's."""

    _real: dict[int, int] = field(factory=lambda: {0: 0}, init=False)
    """Before all messages is 0 in both."""

    def learn(self, model: Sequence[OutboxRow], real: Sequence[Mapping[str, Any]]) -> None:
        """From the rows of both."""
        real_ids = {row["event_id"]: row["id"] for row in real}
        for row in model:
            if row.message.event_id in real_ids:
                self._real[row.id] = real_ids[row.message.event_id]

    def real(self, value: Any) -> Any:
        """What an outbox queue is given, or gives, with PostgreSQL's numbers; a number by itself is a count."""
        match value:
            case list() | tuple() | set():
                return [self._real[each] if isinstance(each, int) else self.real(each) for each in value]
            case QueuedMessage() | PublishedMessage() | FailedMessage() | DeadMessage():
                return evolve(value, id=self._real[value.id])
            case _:
                return value

    def real_result(self, method: str, result: Any) -> Any:
        """The same for what it gives."""
        return self._real[result] if method == "newest_id" and result is not None else self.real(result)

    def real_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The same for what is given by name."""
        return {
            name: self._real[value] if name in {"after_id", "up_to"} else self.real(value)
            for name, value in options.items()
        }
