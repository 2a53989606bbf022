"""How many people are waiting for a chat, measured by every replica for itself."""

from __future__ import annotations

import math
from datetime import datetime

from prometheus_client import CollectorRegistry, Gauge

from ...application.ports.provisioning import ProvisioningBacklog


class ProvisioningBacklogMetrics:
    """Gauges of the chat backlog: 0 when it is empty, not a number while it could not be measured.

    A value from before is never shown as if it were the present one.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._failed = Gauge(
            "messenger_chat_provision_failed",
            "Provisions that are failed or stuck.",
            registry=registry,
        )
        self._oldest_age = Gauge(
            "messenger_chat_provision_oldest_age_seconds",
            "Age of the oldest provision that is failed or stuck.",
            registry=registry,
        )
        self.unknown()

    def measured(self, backlog: ProvisioningBacklog, *, as_of: datetime) -> None:
        """Show the backlog as it was at ``as_of``."""
        oldest = backlog.oldest_created_at
        self._failed.set(backlog.failed)
        self._oldest_age.set(0 if oldest is None else max(0.0, (as_of - oldest).total_seconds()))

    def unknown(self) -> None:
        """The database could not be asked."""
        self._failed.set(math.nan)
        self._oldest_age.set(math.nan)
