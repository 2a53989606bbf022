"""Everything in this process: a small honest database and the ports on top of it, for tests and simulations.

No real time, no threads, no randomness. Every await of a port passes a `Switch`, where a simulator may let others go
first, cancel, or fail the call. What a host's tests import from here is listed in ``__all__`` and kept stable.
"""

from .clock import ManualClock
from .consumer_telemetry import MemoryConsumerTelemetry
from .event_publisher import MemoryEventPublisher
from .finalization import MemoryFinalizationStore
from .ids import SequentialIds
from .outbox_queue import MemoryOutboxQueue
from .provision_rows import committed_provision, put_provision
from .provisioning import MemoryProvisioningStore
from .recording_storage import MemoryRecordingStorage
from .relay_telemetry import MemoryRelayTelemetry
from .run_locks import MemoryRunLocks, RunLockServer
from .schema import MessengerDatabase
from .switch import Phase, Step, Switch, let_others_run
from .telemetry import MemoryTelemetry

__all__ = [
    "ManualClock",
    "MemoryConsumerTelemetry",
    "MemoryEventPublisher",
    "MemoryFinalizationStore",
    "MemoryOutboxQueue",
    "MemoryProvisioningStore",
    "MemoryRecordingStorage",
    "MemoryRelayTelemetry",
    "MemoryRunLocks",
    "MemoryTelemetry",
    "MessengerDatabase",
    "Phase",
    "RunLockServer",
    "SequentialIds",
    "Step",
    "Switch",
    "committed_provision",
    "let_others_run",
    "put_provision",
]
