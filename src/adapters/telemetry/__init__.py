"""What the application says about itself, as log lines and as Prometheus metrics.

What a host imports from here is listed in ``__all__`` and kept stable.
"""

from .backlog_metrics import ProvisioningBacklogMetrics
from .combined_telemetry import CombinedTelemetry
from .consumer_combined import CombinedConsumerTelemetry
from .consumer_log import ConsumerLog
from .consumer_metrics import ConsumerMetrics
from .cycle_metrics import CycleMetrics
from .finalization_backlog_metrics import FinalizationBacklogMetrics
from .job_metrics import JobMetrics
from .logging import configure_logging
from .outbox_backlog_metrics import OutboxBacklogMetrics
from .relay_combined import CombinedRelayTelemetry
from .relay_log import RelayLog
from .relay_metrics import RelayMetrics
from .structured_log import StructuredLog

__all__ = [
    "CombinedConsumerTelemetry",
    "CombinedRelayTelemetry",
    "CombinedTelemetry",
    "ConsumerLog",
    "ConsumerMetrics",
    "CycleMetrics",
    "FinalizationBacklogMetrics",
    "JobMetrics",
    "OutboxBacklogMetrics",
    "ProvisioningBacklogMetrics",
    "RelayLog",
    "RelayMetrics",
    "StructuredLog",
    "configure_logging",
]
