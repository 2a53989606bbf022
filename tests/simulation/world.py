"""Everything outside the processes: what stays when they die, and what may be out of order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Final
from uuid import UUID

from attrs import define, field
from messenger_jobs.adapters.memory.clock import ManualClock
from messenger_jobs.adapters.memory.run_locks import RunLockServer
from messenger_jobs.adapters.memory.schema import MessengerDatabase
from messenger_jobs.application.ports.errors import DatabaseUnavailable, PortError
from messenger_jobs.domain.backoff import BackoffPolicy
from messenger_jobs.domain.deal_chat_provision import ProvisioningRules
from messenger_jobs.domain.evidence import Evidence
from messenger_jobs.domain.finalization import FinalizationRules

from tests.simulation.faults import Port
from tests.simulation.journal import Journal
from tests.simulation.journalled import JournalledDatabase, seen
from tests.simulation.loop import SimulationLoop
from tests.support.builders import NOW

if TYPE_CHECKING:
    from tests.simulation.broker import SimulatedBroker
    from tests.simulation.monitor import Monitor
    from tests.simulation.process import Gate, Process

LOCK_TTL: Final = timedelta(minutes=5)
MAX_ATTEMPTS: Final = 3
BACKOFF: Final = BackoffPolicy(base=timedelta(minutes=1), factor=2.0, cap=timedelta(minutes=3), jitter=0.2)
PROVISIONING_RULES: Final = ProvisioningRules(
    max_attempts=MAX_ATTEMPTS, stuck_after=timedelta(minutes=5), backoff=BACKOFF
)
FINALIZATION_RULES: Final = FinalizationRules(
    max_attempts=MAX_ATTEMPTS,
    finalize_sla_timeout=timedelta(minutes=30),
    poll=timedelta(seconds=60),
    backoff=BACKOFF,
)


def _nothing(gate: Gate) -> None:
    del gate


@define(eq=False)
class World:
    """Servers, time, and the people who use them."""

    journal: Journal | None = None
    """Where everything that is asked of the database is written down, if anywhere."""
    clock: ManualClock = field(factory=lambda: ManualClock(NOW))
    loop: SimulationLoop = field(init=False)
    database: MessengerDatabase = field(init=False)
    lock_server: RunLockServer = field(init=False)
    objects: dict[str, Evidence] = field(factory=dict[str, Evidence])
    """What is in storage, by object key."""
    broker: SimulatedBroker = field(init=False)
    gates: list[Gate] = field(factory=list["Gate"])
    on_gate: Callable[[Gate], None] = field(default=_nothing)
    """Told of every exchange that begins to wait for the simulator."""
    down: set[Port] = field(factory=set[Port])
    slow_answers: bool = False
    """Whether answers, too, wait for the simulator."""
    healed: bool = False
    """Nothing goes wrong any more, and nobody waits for the simulator."""
    refusable: set[UUID] = field(factory=set[UUID])
    """Deals that the domain has, or has had, a reason to refuse."""
    monitor: Monitor = field(init=False)
    faults: Counter[str] = field(factory=Counter[str])

    def __attrs_post_init__(self) -> None:
        self.loop = SimulationLoop(self.clock)  # type: ignore[abstract] # only for type checkers
        self.database = (
            MessengerDatabase(self.clock)
            if self.journal is None
            else JournalledDatabase(self.clock, self.journal)
        )
        self.lock_server = RunLockServer(self.clock, LOCK_TTL)

    def observe(self, by: Process | None) -> None:
        """Let the invariants see what has been committed since the last look."""
        self.monitor.observe(by)
        if self.journal is not None:
            self.journal.events.append(seen(self.database))

    def outage(self, port: Port) -> PortError | None:
        """What every exchange with a server comes to that is down."""
        if port not in self.down:
            return None
        return DatabaseUnavailable("08001", f"simulated: the {port.value} is down")
