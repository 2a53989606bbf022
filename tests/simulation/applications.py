"""What runs in the processes: the application layer as it is, on the memory adapters."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from attrs import frozen
from messenger_jobs.adapters.memory.finalization import MemoryFinalizationStore
from messenger_jobs.adapters.memory.outbox_queue import MemoryOutboxQueue
from messenger_jobs.adapters.memory.provision_rows import provision_of
from messenger_jobs.adapters.memory.provisioning import MemoryProvisioningStore
from messenger_jobs.adapters.memory.relay_telemetry import MemoryRelayTelemetry
from messenger_jobs.adapters.memory.run_locks import MemoryRunLocks
from messenger_jobs.application.announce_recording import Announcer
from messenger_jobs.application.chat_provision_retry import ChatProvisionRetry
from messenger_jobs.application.finalize_uploaded_recording import FinalizeUploadedRecording
from messenger_jobs.application.open_finalization import OpenFinalization
from messenger_jobs.application.options import OutboxRelayOptions
from messenger_jobs.application.outbox_relay import OutboxRelay
from messenger_jobs.application.provision_created_deal import CreatedDeal, ProvisionCreatedDeal
from messenger_jobs.application.provision_deal_chat import ProvisionDealChat
from messenger_jobs.application.recording_finalize_retry import RecordingFinalizeRetry
from messenger_jobs.application.requeue_dead_messages import RequeueDeadMessages
from messenger_jobs.application.requeue_finalizations import RequeueFinalizations
from messenger_jobs.application.requeue_provisions import RequeueProvisions
from messenger_jobs.application.run_cycle import CycleLimits, PeriodicJob, run_cycle
from messenger_jobs.domain.evidence import RecordingFormat

from tests.simulation.broker import SimulatedPublisher
from tests.simulation.faults import Port
from tests.simulation.journalled import database_switch, journalled
from tests.simulation.names import FILE, id_of
from tests.simulation.observed import (
    ObservedFinalizationStore,
    ObservedJob,
    ObservedRunLocks,
    ObservedStorage,
)
from tests.simulation.process import Process, Run
from tests.simulation.world import FINALIZATION_RULES, PROVISIONING_RULES

Application = Callable[[Process], Run]


def _spread() -> float:
    return 0.5


def _provisioning(process: Process) -> ProvisionDealChat:
    return ProvisionDealChat(
        clock=process.clock, new_id=process.new_id, spread=_spread, rules=PROVISIONING_RULES
    )


def _provisions(process: Process) -> MemoryProvisioningStore:
    store = MemoryProvisioningStore(process.world.database, switch=database_switch(process))
    return journalled(process, store)


def _finalizations(process: Process) -> MemoryFinalizationStore:
    store = MemoryFinalizationStore(process.world.database, switch=database_switch(process))
    return journalled(process, store)


def _outbox_queue(process: Process) -> MemoryOutboxQueue:
    return journalled(process, MemoryOutboxQueue(process.world.database, switch=database_switch(process)))


def _announcer(process: Process) -> Announcer:
    return Announcer(clock=process.clock, new_id=process.new_id)


def _locks(process: Process) -> ObservedRunLocks:
    locks = MemoryRunLocks(process.world.lock_server, process.clock, switch=process.exchange(Port.LOCKS))
    return ObservedRunLocks(locks, process)


@frozen(kw_only=True)
class Pace:
    """How a runner goes through its rows."""

    batch_size: int = 100
    lanes: int = 1
    looks_at_once: int = 1
    max_run: timedelta = timedelta(minutes=3)


def _cycles(process: Process, job: PeriodicJob[Any], pace: Pace) -> Run:
    locks = _locks(process)
    limits = CycleLimits(batch_size=pace.batch_size, max_run_duration=pace.max_run, lanes=pace.lanes)

    def cycle() -> Coroutine[Any, Any, object]:
        return run_cycle(
            job,
            limits=limits,
            locks=locks,
            clock=process.clock,
            telemetry=process.telemetry,
            new_id=process.new_id,
            stop=process.stop,
        )

    return cycle


def chat_job(pace: Pace = Pace()) -> Application:
    """Cycles of ``chat-provision-retry``."""

    def application(process: Process) -> Run:
        def due(as_of: datetime) -> dict[UUID, object]:
            rows = process.world.database.rows(process.world.database.provisions)
            return {
                row.id: row
                for row in rows
                if provision_of(row, ()).is_due(as_of=as_of, rules=PROVISIONING_RULES)
            }

        job = ChatProvisionRetry(store=_provisions(process), provisioning=_provisioning(process))
        return _cycles(process, ObservedJob(job, process, due), pace)

    return application


def recording_job(pace: Pace = Pace()) -> Application:
    """Cycles of ``recording-finalize-retry``."""

    def application(process: Process) -> Run:
        def due(as_of: datetime) -> dict[UUID, object]:
            entries = process.world.database.rows(process.world.database.finalizations)
            return {entry.id: entry for entry in entries if entry.is_due(as_of=as_of)}

        store = ObservedFinalizationStore(
            process.world.database, switch=database_switch(process), process=process
        )
        job = RecordingFinalizeRetry(
            store=journalled(process, store),
            storage=ObservedStorage(process),
            announcer=_announcer(process),
            clock=process.clock,
            spread=_spread,
            rules=FINALIZATION_RULES,
            telemetry=process.telemetry,
            looks_at_once=pace.looks_at_once,
        )
        return _cycles(process, ObservedJob(job, process, due), pace)

    return application


def relay(*, batch_size: int = 500) -> Application:
    """The outbox relay, draining the outbox once at each run."""

    options = OutboxRelayOptions(batch_size=batch_size)

    def application(process: Process) -> Run:
        draining = OutboxRelay(
            queue=_outbox_queue(process),
            publisher=SimulatedPublisher(process),
            locks=_locks(process),
            clock=process.clock,
            telemetry=MemoryRelayTelemetry(),
            options=options,
            new_id=process.new_id,
            spread=_spread,
        )
        return lambda: draining.run_once(process.stop)

    return application


def requeue_dead_messages() -> Application:
    """An operator who lets all parked messages be sent again."""

    def application(process: Process) -> Run:
        requeue = RequeueDeadMessages(queue=_outbox_queue(process))
        return requeue.all

    return application


def deal_created(deal: CreatedDeal) -> Application:
    """The consumer, which is given one message; delivered again at each run."""

    def application(process: Process) -> Run:
        provision = ProvisionCreatedDeal(
            store=_provisions(process),
            provisioning=_provisioning(process),
            clock=process.clock,
            new_id=process.new_id,
        )
        return lambda: provision(deal)

    return application


def uploaded(recording_id: UUID) -> Application:
    """The recorder's callback; its upload is in storage first."""

    def application(process: Process) -> Run:
        finalize = FinalizeUploadedRecording(
            store=_finalizations(process), announcer=_announcer(process), clock=process.clock
        )
        return lambda: finalize(
            recording_id,
            file_id=id_of(FILE, recording_id.int % 100),
            size_bytes=4_096,
            duration_seconds=60,
            format=RecordingFormat.WEBM,
            correlation_id=process.new_id(),
        )

    return application


def session_ended(recording_id: UUID) -> Application:
    """The host, which opens the finalization of a recording."""

    def application(process: Process) -> Run:
        opening = OpenFinalization(store=_finalizations(process), clock=process.clock, new_id=process.new_id)
        return lambda: opening(recording_id)

    return application


def requeue_provisions(ids: tuple[UUID, ...]) -> Application:
    """An operator who lets provisions start over; without ids, all poison."""

    def application(process: Process) -> Run:
        requeue = RequeueProvisions(store=_provisions(process), clock=process.clock, rules=PROVISIONING_RULES)
        return lambda: requeue.rows(ids) if ids else requeue.poison()

    return application


def requeue_finalizations(ids: tuple[UUID, ...]) -> Application:
    """An operator who lets finalizations start over; without ids, all that are quarantined."""

    def application(process: Process) -> Run:
        requeue = RequeueFinalizations(store=_finalizations(process), clock=process.clock)
        return lambda: requeue.rows(ids) if ids else requeue.poison()

    return application
