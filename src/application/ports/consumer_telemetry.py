"""What a consumer of messages says about itself."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol
from uuid import UUID

from attrs import frozen

from ..cycle_report import AttemptReport
from ..trouble import Trouble


@frozen(kw_only=True)
class MessagePlace:
    """Where a message stands in its topic."""

    partition: int
    offset: int


@frozen(kw_only=True)
class DeadLetter:
    """Why a message was set aside.

    ``reason`` is a stable code, ``sentence`` is for people; neither holds anything of what the message says. With
    ``value_lost`` the dead letter topic did not take the message as it is: its letter tells only where it stands, and
    the value must be fetched from there before the source topic's retention is over.
    """

    reason: str
    sentence: str
    value_lost: bool = False


class ConsumerTelemetry(Protocol):
    """Receives what happens in a consumer; never raises, never blocks, never changes what is done.

    ``run_id`` is new with every start of the consumer.
    """

    def partitions_assigned(self, run_id: UUID, partitions: Collection[int]) -> None:
        """The group gave this consumer these partitions, in place of those that it had; none when it leaves."""
        ...

    def handled(self, run_id: UUID, place: MessagePlace, report: AttemptReport) -> None:
        """What a message came to is committed."""
        ...

    def dead_lettered(self, run_id: UUID, place: MessagePlace, letter: DeadLetter) -> None:
        """The message cannot be handled, and the dead letter topic has it: somebody must look."""
        ...

    def defect(self, run_id: UUID, place: MessagePlace | None, error: BaseException) -> None:
        """A programming error of ours ended one try at a message, or with None the membership in the group."""
        ...

    def trouble_began(self, run_id: UUID, trouble: Trouble) -> None:
        """Messages wait, at least those of some partitions; told once for each kind, however long it lasts."""
        ...

    def trouble_ended(self, run_id: UUID, trouble: Trouble) -> None:
        """Nobody waits any more because of trouble of this kind."""
        ...
