"""What can go wrong at an exchange with a server, by kind."""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import Final

from messenger_jobs.adapters.memory.switch import Phase, Step
from messenger_jobs.application.ports.errors import (
    DatabaseUnavailable,
    DataRejected,
    Misconfigured,
    PortError,
    RowRolledBack,
)
from messenger_jobs.domain.evidence import Evidence, StorageMisconfigured, Unreachable, Unsupported


class Port(Enum):
    """With whom an exchange takes place."""

    DATABASE = "database"
    LOCKS = "locks"
    STORAGE = "storage"
    BROKER = "broker"


class Fault(StrEnum):
    """What happens to one exchange."""

    UNAVAILABLE = "connection lost"
    ANSWER_LOST = "answer lost"
    ROLLED_BACK = "rolled back"
    MISCONFIGURED = "misconfigured"
    REJECTED = "data rejected"
    NO_BUCKET = "bucket missing"
    SLOW_DOWN = "slow down"
    UNKNOWN_TYPE = "unknown content type"
    TOO_LARGE = "message too large"
    NOT_LEADER = "partition without leader"


EVIDENCE: Final[dict[Fault, Evidence]] = {
    Fault.NO_BUCKET: StorageMisconfigured(code="NO_SUCH_BUCKET"),
    Fault.SLOW_DOWN: Unreachable(code="SLOW_DOWN", connection_failed=False),
    Fault.UNKNOWN_TYPE: Unsupported(code="UNKNOWN_CONTENT_TYPE"),
}
"""What storage says instead of what it would say."""

MESSAGE_TROUBLE: Final = frozenset({Fault.TOO_LARGE, Fault.NOT_LEADER})
"""What the broker has against one message alone."""

_COMMON: Final = (Fault.UNAVAILABLE, Fault.ANSWER_LOST, Fault.MISCONFIGURED)
_STATEMENT: Final = (*_COMMON, Fault.ROLLED_BACK)
_WRITE: Final = (*_STATEMENT, Fault.REJECTED)
_LOOK: Final = (Fault.UNAVAILABLE, Fault.ANSWER_LOST, *EVIDENCE)
_PUBLISH: Final = (*_COMMON, Fault.TOO_LARGE, Fault.NOT_LEADER)

_REJECTABLE: Final = frozenset({"settle", "write"})


def faults_at(port: Port, step: Step, *, own_data_only: bool = False) -> tuple[Fault, ...]:
    """What may happen here. An answer can only be lost; whatever else goes wrong does so before.

    ``own_data_only``: the statement carries nothing that came from outside, so a database has nothing to refuse.
    """
    if step.phase is Phase.ANSWERED:
        return (Fault.UNAVAILABLE,)
    match port:
        case Port.DATABASE:
            return _WRITE if step.operation in _REJECTABLE and not own_data_only else _STATEMENT
        case Port.LOCKS:
            return _COMMON
        case Port.STORAGE:
            return _LOOK
        case Port.BROKER:
            return _PUBLISH


def error_of(fault: Fault) -> PortError:
    """What a port raises for it."""
    match fault:
        case Fault.ROLLED_BACK:
            return RowRolledBack("40001", "simulated: could not serialize access")
        case Fault.MISCONFIGURED:
            return Misconfigured("42P01", "simulated: something is not set up")
        case Fault.REJECTED:
            return DataRejected("22003", "simulated: the data are refused")
        case _:
            return DatabaseUnavailable("08006", "simulated: the connection is gone")
