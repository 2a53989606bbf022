"""How many recordings are unfinished, measured by every replica for itself."""

from __future__ import annotations

import math
from datetime import datetime

from prometheus_client import CollectorRegistry, Gauge

from ...application.ports.finalization import FinalizationBacklog


class FinalizationBacklogMetrics:
    """Gauges of the recordings' backlog: 0 when it is empty, not a number while it could not be measured."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._pending = Gauge(
            "messenger_recording_finalize_backlog",
            "Recordings that are still to be finished.",
            registry=registry,
        )
        self._oldest_age = Gauge(
            "messenger_recording_finalize_oldest_age_seconds",
            "Age of the oldest finalization that is pending.",
            registry=registry,
        )
        self.unknown()

    def measured(self, backlog: FinalizationBacklog, *, as_of: datetime) -> None:
        """Show the backlog as it was at ``as_of``."""
        oldest = backlog.oldest_created_at
        self._pending.set(backlog.pending)
        self._oldest_age.set(0 if oldest is None else max(0.0, (as_of - oldest).total_seconds()))

    def unknown(self) -> None:
        """The database could not be asked."""
        self._pending.set(math.nan)
        self._oldest_age.set(math.nan)
