"""What the application asks of the outside, one protocol a file.

A host may bring its own implementation of each; its docstrings are its contract, and name the tests that hold it.
"""

from ...domain.evidence import Empty, Evidence, Found, Missing, StorageMisconfigured, Unreachable, Unsupported
from .clock import Clock
from .consumer_telemetry import ConsumerTelemetry
from .entropy import NewId, Spread
from .errors import (
    ChatAlreadyExists,
    DatabaseUnavailable,
    DataRejected,
    Misconfigured,
    PortError,
    RowRolledBack,
)
from .event_publisher import Event, EventPublisher, NotPublished, Published, Receipt, Unpublishable
from .finalization import FinalizationStore, FinalizationUnit
from .outbox import JsonValue, Outbox, OutboxMessage
from .outbox_queue import OutboxQueue
from .provisioning import ProvisioningStore, ProvisioningUnit
from .recording_storage import RecordingStorage
from .relay_telemetry import RelayTelemetry
from .run_lock import RunLease, RunLocks
from .telemetry import Telemetry
from .unit_of_work import UnitOfWork

__all__ = [
    "ChatAlreadyExists",
    "Clock",
    "ConsumerTelemetry",
    "DataRejected",
    "DatabaseUnavailable",
    "Empty",
    "Event",
    "EventPublisher",
    "Evidence",
    "FinalizationStore",
    "FinalizationUnit",
    "Found",
    "JsonValue",
    "Misconfigured",
    "Missing",
    "NewId",
    "NotPublished",
    "Outbox",
    "OutboxMessage",
    "OutboxQueue",
    "PortError",
    "ProvisioningStore",
    "ProvisioningUnit",
    "Published",
    "Receipt",
    "RecordingStorage",
    "RelayTelemetry",
    "RowRolledBack",
    "RunLease",
    "RunLocks",
    "Spread",
    "StorageMisconfigured",
    "Telemetry",
    "UnitOfWork",
    "Unpublishable",
    "Unreachable",
    "Unsupported",
]
