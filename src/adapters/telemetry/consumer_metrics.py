"""Counters and gauges of the deal-created consumer."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final
from uuid import UUID

from prometheus_client import CollectorRegistry, Counter, Gauge

from ...application.cycle_report import AttemptReport, Outcome
from ...application.ports.consumer_telemetry import DeadLetter, MessagePlace
from ...application.trouble import Trouble, TroubleKind

_OUTCOMES: Final = (Outcome.PROVISIONED, Outcome.RETRIED, Outcome.FAILED, Outcome.DUPLICATE)


class ConsumerMetrics:
    """A `ConsumerTelemetry` that counts into ``registry``.

    Outcomes and kinds of trouble are there from the start, with 0. Reasons of dead letters are a closed set of codes,
    and the classes of our own defects.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._handled = Counter(
            "messenger_deal_created_handled_total",
            "Messages whose effect is committed, by what they came to.",
            ["outcome"],
            registry=registry,
        )
        self._dead_lettered = Counter(
            "messenger_deal_created_dead_lettered_total",
            "Messages that went to the dead letter topic, by reason.",
            ["reason"],
            registry=registry,
        )
        self._value_lost = Counter(
            "messenger_deal_created_dead_letters_without_value_total",
            "Dead letters that only tell where the message stands, because it was too large for their topic.",
            registry=registry,
        )
        self._defects = Counter(
            "messenger_deal_created_defects_total",
            "Tries that a programming error ended.",
            registry=registry,
        )
        self._outage = Gauge(
            "messenger_deal_created_outage",
            "1 while messages wait because of trouble of this kind.",
            ["kind"],
            registry=registry,
        )
        self._partitions = Gauge(
            "messenger_deal_created_partitions",
            "Partitions that the group has given to this replica.",
            registry=registry,
        )
        for outcome in _OUTCOMES:
            self._handled.labels(outcome.value)
        for kind in TroubleKind:
            self._outage.labels(kind.value)

    def partitions_assigned(self, run_id: UUID, partitions: Collection[int]) -> None:
        """Show how many."""
        self._partitions.set(len(partitions))

    def handled(self, run_id: UUID, place: MessagePlace, report: AttemptReport) -> None:
        """Count by outcome."""
        self._handled.labels(report.outcome.value).inc()

    def dead_lettered(self, run_id: UUID, place: MessagePlace, letter: DeadLetter) -> None:
        """Count by reason."""
        self._dead_lettered.labels(letter.reason).inc()
        if letter.value_lost:
            self._value_lost.inc()

    def defect(self, run_id: UUID, place: MessagePlace | None, error: BaseException) -> None:
        """Count."""
        self._defects.inc()

    def trouble_began(self, run_id: UUID, trouble: Trouble) -> None:
        """Show it."""
        self._outage.labels(trouble.kind.value).set(1)

    def trouble_ended(self, run_id: UUID, trouble: Trouble) -> None:
        """Show that it is over."""
        self._outage.labels(trouble.kind.value).set(0)
