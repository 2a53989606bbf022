"""What is done about one message."""

from __future__ import annotations

from typing import Final, assert_never
from uuid import UUID

from attrs import evolve, frozen

from ...application.ports.consumer_telemetry import ConsumerTelemetry, DeadLetter
from ...application.ports.errors import DataRejected, Misconfigured, PortError
from ...application.ports.event_publisher import EventPublisher, NotPublished, Published, Unpublishable
from ...application.provision_created_deal import ProvisionCreatedDeal
from .deal_created_dead_letter import (
    DEAL_CREATED_GROUP,
    Record,
    letter_without_value,
    place_of,
    whole_letter,
)
from .deal_created_message import Refusal, read_created_deal

TRIES: Final = 3
"""How often a message is tried that meets a defect of ours, before it is set aside."""


class DeadLettersUnavailable(PortError):
    """Nobody knows whether the dead letter topic has the message: it is to be sent again."""


@frozen(kw_only=True)
class DealCreatedHandler:
    """Reads a message and provisions its deal, or sets the message aside; either way it is done with when this returns.

    Raises `RowRolledBack`, `DatabaseUnavailable`, `DeadLettersUnavailable` or `Misconfigured` when it is not, through
    no fault of the message. Doing it twice changes nothing but that the dead letter topic may have a letter twice.
    """

    provision: ProvisionCreatedDeal
    dead_letters: EventPublisher
    telemetry: ConsumerTelemetry
    run_id: UUID
    group: str = DEAL_CREATED_GROUP

    async def handle(self, record: Record) -> None:
        """Provision the message's deal; what cannot be understood or stored is set aside."""
        deal = read_created_deal(record.value, record.headers)
        if isinstance(deal, Refusal):
            await self._set_aside(record, DeadLetter(reason=deal.code, sentence=deal.sentence))
            return
        try:
            report = await self.provision(deal)
        except DataRejected as rejection:
            letter = DeadLetter(reason=f"Postgres:{rejection.code}", sentence=f"{rejection}.")
            await self._set_aside(record, letter)
        else:
            self.telemetry.handled(self.run_id, place_of(record), report)

    async def give_up(self, record: Record, defect: BaseException) -> None:
        """Set a message aside that met a defect of ours too often.

        It is not lost, and can be put back into the topic once the defect is repaired. Trying it for ever would hold up
        everybody behind it for the one message that only a new version can handle.
        """
        reason = f"Defect:{type(defect).__name__}"
        sentence = f"A defect of this consumer ended {TRIES} tries at the message."
        await self._set_aside(record, DeadLetter(reason=reason, sentence=sentence))

    async def _set_aside(self, record: Record, letter: DeadLetter) -> None:
        (receipt,) = await self.dead_letters.publish([whole_letter(record, letter, group=self.group)])
        if isinstance(receipt, Unpublishable):
            letter = evolve(letter, value_lost=True)
            stand_in = letter_without_value(record, letter, group=self.group)
            (receipt,) = await self.dead_letters.publish([stand_in])
        match receipt:
            case Published():
                self.telemetry.dead_lettered(self.run_id, place_of(record), letter)
            case NotPublished(code=code):
                raise DeadLettersUnavailable(code, "the dead letter topic did not acknowledge a message")
            case Unpublishable(code=code):
                raise Misconfigured(code, "the dead letter topic refuses this consumer's messages")
            case _:
                assert_never(receipt)
