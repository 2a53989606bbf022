"""What keeps messages waiting, told once for each kind, however many partitions it concerns."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Final
from uuid import UUID

from aiokafka.errors import (  # type: ignore[import-untyped]  # ships no types
    KafkaError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    UnsupportedCodecError,
)
from attrs import define, field

from ...application.ports.consumer_telemetry import ConsumerTelemetry
from ...application.ports.errors import Misconfigured, PortError
from ...application.trouble import Trouble, TroubleKind
from .deal_created_handler import DeadLettersUnavailable
from .errors import TOPIC_REFUSED, UNKNOWN_TOPIC, failure_of, misconfiguration_in


def trouble_with_message(error: PortError) -> Trouble:
    """What it means that a message could not be handled, through no fault of its own."""
    match error:
        case Misconfigured():
            kind = TroubleKind.CONFIGURATION
        case DeadLettersUnavailable():
            kind = TroubleKind.BROKER
        case _:
            kind = TroubleKind.DATABASE
    return Trouble(kind=kind, code=error.code, error=error)


def trouble_with_group(error: BaseException) -> Trouble:
    """What it means that the consumer is not in its group, or got no answer from it."""
    misconfigured = error if isinstance(error, Misconfigured) else misconfiguration_in(error)
    for kind, (code, sentence) in _FOR_A_PERSON.items():
        if misconfigured is None and isinstance(error, kind):
            misconfigured = Misconfigured(code, sentence)
    if misconfigured is not None:
        return Trouble(kind=TroubleKind.CONFIGURATION, code=misconfigured.code, error=misconfigured)
    if isinstance(error, (KafkaError, OSError)):
        return Trouble(kind=TroubleKind.BROKER, code=failure_of(error).code, error=error)
    return Trouble(kind=TroubleKind.DEFECT, code=f"Defect:{type(error).__name__}", error=error)


_FOR_A_PERSON: Final[Mapping[type[Exception], tuple[str, str]]] = {
    UnknownTopicOrPartitionError: (UNKNOWN_TOPIC, "there is no topic of created deals"),
    TopicAuthorizationFailedError: (
        TOPIC_REFUSED,
        "Kafka does not let this user read the topic of created deals",
    ),
    UnsupportedCodecError: (
        "CODEC_MISSING",
        "messages are compressed in a way for which aiokafka's library is not installed",
    ),
}


@define(eq=False)
class Troubles:
    """Who is in trouble: partitions, and the membership in the group."""

    _telemetry: ConsumerTelemetry
    _run_id: UUID
    _by_whom: dict[Hashable, TroubleKind] = field(factory=dict[Hashable, TroubleKind], init=False)
    _told: dict[TroubleKind, Trouble] = field(factory=dict[TroubleKind, Trouble], init=False)

    def has(self, who: Hashable, trouble: Trouble) -> None:
        """``who`` is in trouble, again or still."""
        self._by_whom[who] = trouble.kind
        if trouble.kind not in self._told:
            self._told[trouble.kind] = trouble
            self._telemetry.trouble_began(self._run_id, trouble)
        self._tell_what_ended()

    def is_well(self, who: Hashable) -> None:
        """``who`` got on."""
        if self._told:  # asked for every message
            self._by_whom.pop(who, None)
            self._tell_what_ended()

    def is_gone(self, who: Hashable) -> None:
        """``who`` ended without having got on: its trouble is over when somebody else gets on."""
        self._by_whom.pop(who, None)

    def _tell_what_ended(self) -> None:
        ongoing = set(self._by_whom.values())
        for kind in [kind for kind in self._told if kind not in ongoing]:
            self._telemetry.trouble_ended(self._run_id, self._told.pop(kind))
