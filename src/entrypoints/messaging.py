"""The outbox, its relay and the consumer of created deals, put together from the settings."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Final, Protocol

from attrs import frozen
from opentelemetry.trace import TracerProvider
from prometheus_client import CollectorRegistry

from ..adapters.kafka.security import KafkaSecurity
from ..adapters.telemetry.consumer_combined import CombinedConsumerTelemetry
from ..adapters.telemetry.consumer_log import ConsumerLog
from ..adapters.telemetry.consumer_metrics import ConsumerMetrics
from ..adapters.telemetry.job_metrics import JobMetrics
from ..adapters.telemetry.open_telemetry import TracedPublisher
from ..adapters.telemetry.outbox_backlog_metrics import OutboxBacklogMetrics
from ..adapters.telemetry.relay_combined import CombinedRelayTelemetry
from ..adapters.telemetry.relay_log import RelayLog
from ..adapters.telemetry.relay_metrics import RelayMetrics
from ..application.heartbeat import Beat
from ..application.list_dead_messages import ListDeadMessages
from ..application.outbox_relay import OUTBOX_RELAY, OutboxRelay
from ..application.ports.clock import Clock
from ..application.ports.entropy import NewId, Spread
from ..application.ports.event_publisher import EventPublisher
from ..application.ports.outbox_queue import OutboxQueue
from ..application.ports.provisioning import ProvisioningStore
from ..application.ports.run_lock import RunLocks
from ..application.provision_created_deal import DEAL_CREATED, ProvisionCreatedDeal
from ..application.provision_deal_chat import ProvisionDealChat
from ..application.prune_outbox import PruneOutbox
from ..application.requeue_dead_messages import RequeueDeadMessages
from ..application.stop_signal import StopSignal
from .settings import Settings

CONSUMER_CONCURRENCY: Final = 4
"""Messages that a consumer handles at once, each in a transaction of its own."""


class Loop(Protocol):
    """Runs until a stop is requested; calls ``beat`` at every sign of life. Failures end in its telemetry."""

    async def __call__(self, stop: StopSignal, *, beat: Beat) -> None:
        """Run."""
        ...


@frozen(kw_only=True)
class WorkerLoop:
    """A part of the worker with a rhythm of its own; silent for longer than ``patience`` it is stuck."""

    name: str
    run: Loop
    patience: timedelta


@frozen(kw_only=True)
class Outbox:
    """What operators and scrapes ask of the outbox, broker or not."""

    queue: OutboxQueue
    dead: ListDeadMessages
    requeue: RequeueDeadMessages
    prune: PruneOutbox
    backlog_metrics: OutboxBacklogMetrics


@frozen(kw_only=True)
class Messaging:
    """What there is where a broker is set: None and nothing otherwise."""

    relay: OutboxRelay | None
    loops: tuple[WorkerLoop, ...]


@frozen(kw_only=True)
class Surroundings:
    """What both directions need."""

    clock: Clock
    new_id: NewId
    spread: Spread
    registry: CollectorRegistry
    job_metrics: JobMetrics
    tracer_provider: TracerProvider | None


LOOP_NAMES: Final = (OUTBOX_RELAY, DEAL_CREATED)
"""The parts of a worker that are not periodic jobs, where a broker is set."""


def loop_names(settings: Settings) -> tuple[str, ...]:
    """Those that there are with these settings."""
    return () if settings.kafka_bootstrap_servers is None else LOOP_NAMES


def outbox_of(settings: Settings, queue: OutboxQueue, surroundings: Surroundings) -> Outbox:
    """The outbox as operators see it."""
    return Outbox(
        queue=queue,
        dead=ListDeadMessages(queue=queue),
        requeue=RequeueDeadMessages(queue=queue),
        prune=PruneOutbox(queue=queue, clock=surroundings.clock, retention=settings.outbox_relay.retention),
        backlog_metrics=OutboxBacklogMetrics(surroundings.registry),
    )


@asynccontextmanager
async def messaging_of(
    settings: Settings,
    *,
    queue: OutboxQueue,
    publisher: EventPublisher | None,
    store: ProvisioningStore,
    provisioning: ProvisionDealChat,
    locks: RunLocks,
    surroundings: Surroundings,
) -> AsyncGenerator[Messaging]:
    """The relay, with ``publisher`` in place of Kafka's where one is given, and the consumer where Kafka is set.

    Nothing connects before it runs.
    """
    async with AsyncExitStack() as resources:
        loops: list[WorkerLoop] = []
        security = kafka_security(settings)
        if publisher is None and security is not None:
            from ..adapters.kafka.event_publisher import KafkaEventPublisher  # noqa: PLC0415 - takes long to import

            timeout = settings.outbox_relay.send_timeout.total_seconds()
            publisher = await resources.enter_async_context(
                KafkaEventPublisher(security, send_timeout=timeout)
            )
        relay = None
        if publisher is not None:
            relay = _relay(settings, queue, publisher, locks, surroundings)
            loops.append(
                WorkerLoop(name=OUTBOX_RELAY, run=relay.run, patience=settings.outbox_relay.patience)
            )
            if security is not None:
                loops.append(_consumer(security, publisher, store, provisioning, surroundings))
        yield Messaging(relay=relay, loops=tuple(loops))


def kafka_security(settings: Settings) -> KafkaSecurity | None:
    """How brokers are reached; None where none are set."""
    if settings.kafka_bootstrap_servers is None:
        return None
    return KafkaSecurity(
        bootstrap_servers=settings.kafka_bootstrap_servers,
        security_protocol=settings.kafka_security_protocol,
        sasl_mechanism=settings.kafka_sasl_mechanism,
        sasl_username=settings.kafka_sasl_username,
        sasl_password=settings.kafka_sasl_password,
        ca_file=settings.kafka_ssl_cafile,
    )


def _relay(
    settings: Settings,
    queue: OutboxQueue,
    publisher: EventPublisher,
    locks: RunLocks,
    surroundings: Surroundings,
) -> OutboxRelay:
    provider = surroundings.tracer_provider
    return OutboxRelay(
        queue=queue,
        publisher=publisher if provider is None else TracedPublisher(publisher, provider),
        locks=locks,
        clock=surroundings.clock,
        telemetry=CombinedRelayTelemetry(
            RelayLog(), RelayMetrics(surroundings.registry, surroundings.job_metrics)
        ),
        options=settings.outbox_relay,
        new_id=surroundings.new_id,
        spread=surroundings.spread,
    )


def _consumer(
    security: KafkaSecurity,
    dead_letters: EventPublisher,
    store: ProvisioningStore,
    provisioning: ProvisionDealChat,
    surroundings: Surroundings,
) -> WorkerLoop:
    from ..adapters.kafka.deal_created_client import DealCreatedClient  # noqa: PLC0415 - takes long to import
    from ..adapters.kafka.deal_created_consumer import PATIENCE, DealCreatedConsumer  # noqa: PLC0415

    consumer = DealCreatedConsumer(
        new_client=lambda: DealCreatedClient(security),
        provision=ProvisionCreatedDeal(
            store=store, provisioning=provisioning, clock=surroundings.clock, new_id=surroundings.new_id
        ),
        dead_letters=dead_letters,
        telemetry=CombinedConsumerTelemetry(ConsumerLog(), ConsumerMetrics(surroundings.registry)),
        clock=surroundings.clock,
        new_id=surroundings.new_id,
        spread=surroundings.spread,
        concurrency=CONSUMER_CONCURRENCY,
    )
    return WorkerLoop(name=DEAL_CREATED, run=consumer.run, patience=timedelta(seconds=PATIENCE))
