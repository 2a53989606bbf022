"""Ports over PostgreSQL 14 to 18, through psycopg 3.

What a host imports from here is listed in ``__all__`` and kept stable. `migrate` is in the module ``migrations``, whose
library nobody else needs.
"""

from .connection_pool import PooledConnections, connection_pool
from .connections import Connection, Connections
from .errors import TranslatedErrors
from .finalization_store import PostgresFinalizationStore
from .host_connection import HostConnection, HostTransaction
from .outbox import PostgresOutbox
from .outbox_queue import PostgresOutboxQueue
from .provisioning_store import PostgresProvisioningStore
from .run_lock import PostgresRunLocks
from .schema import require_schema
from .unit_of_work import OutboxOn

__all__ = [
    "Connection",
    "Connections",
    "HostConnection",
    "HostTransaction",
    "OutboxOn",
    "PooledConnections",
    "PostgresFinalizationStore",
    "PostgresOutbox",
    "PostgresOutboxQueue",
    "PostgresProvisioningStore",
    "PostgresRunLocks",
    "TranslatedErrors",
    "connection_pool",
    "require_schema",
]
