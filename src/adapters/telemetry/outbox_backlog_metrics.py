"""How much waits to be published, measured by every replica for itself."""

from __future__ import annotations

import math
from datetime import datetime

from prometheus_client import CollectorRegistry, Gauge

from ...application.ports.outbox_queue import OutboxBacklog


class OutboxBacklogMetrics:
    """Gauges of the outbox: 0 when nothing waits, not a number while it could not be measured.

    Parked messages do not wait.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._unpublished = Gauge(
            "messenger_outbox_backlog",
            "Messages that are still to be published.",
            registry=registry,
        )
        self._oldest_age = Gauge(
            "messenger_outbox_oldest_age_seconds",
            "Age of the oldest message that is still to be published.",
            registry=registry,
        )
        self.unknown()

    def measured(self, backlog: OutboxBacklog, *, as_of: datetime) -> None:
        """Show the backlog as it was at ``as_of``."""
        oldest = backlog.oldest_created_at
        self._unpublished.set(backlog.unpublished)
        self._oldest_age.set(0 if oldest is None else max(0.0, (as_of - oldest).total_seconds()))

    def unknown(self) -> None:
        """The database could not be asked."""
        self._unpublished.set(math.nan)
        self._oldest_age.set(math.nan)
