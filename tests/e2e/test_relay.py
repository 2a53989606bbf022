"""The relay as a process, between a real database and a real broker that are taken away from it."""

from __future__ import annotations

import asyncio
import random
import signal
from uuid import uuid4

import pytest
from messenger_jobs.adapters.kafka.event_publisher import KafkaEventPublisher
from messenger_jobs.adapters.kafka.security import KafkaSecurity
from messenger_jobs.adapters.memory.relay_telemetry import MemoryRelayTelemetry
from messenger_jobs.adapters.postgres.connection_pool import PooledConnections, connection_pool
from messenger_jobs.adapters.postgres.outbox_queue import PostgresOutboxQueue
from messenger_jobs.adapters.system.clock import SystemClock
from messenger_jobs.application.integration_events import DEAL_CHAT_STATUS_CHANGED_TOPIC
from messenger_jobs.application.options import OutboxRelayOptions
from messenger_jobs.application.outbox_relay import OUTBOX_RELAY, OutboxRelay
from messenger_jobs.application.rehearsal import UncontendedRunLocks
from messenger_jobs.application.stop_signal import StopSignal

from tests.e2e.outbox import Outbox, arrived
from tests.support.eventually import eventually_here
from tests.support.kafka_server import KafkaServer
from tests.support.kafka_servers import NewKafkaServer
from tests.support.processes import run_json, worker

pytestmark = pytest.mark.real_kafka

KILLS = 20
SOON = {"MESSENGER_OUTBOX_RELAY_POLLING_INTERVAL": "0.1", "MESSENGER_OUTBOX_RELAY_SEND_TIMEOUT": "5s"}


@pytest.fixture
def broker(own_kafka: NewKafkaServer) -> KafkaServer:
    broker = own_kafka()
    broker.topic(3, name=DEAL_CHAT_STATUS_CHANGED_TOPIC)
    return broker


@pytest.fixture
def outbox(database_url: str) -> Outbox:
    return Outbox(database_url)


def settings(broker: KafkaServer) -> dict[str, str]:
    return {"MESSENGER_KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap_servers, **SOON}


def memory_of(pid: int) -> int:
    """MiB that the process occupies."""
    with open(f"/proc/{pid}/status", encoding="utf-8") as status:  # noqa: PTH123 - not a file
        (line,) = [line for line in status if line.startswith("VmRSS")]
    return int(line.split()[1]) // 1024


def test_relay_killed_between_acknowledgement_and_mark_sends_again_and_keeps_the_order(
    outbox: Outbox, broker: KafkaServer
) -> None:
    for _ in range(KILLS):
        outbox.add(keys=10, each=2)
        with outbox.unmarkable(), worker(outbox.url, OUTBOX_RELAY, **settings(broker)) as relay:
            outbox.wait_until_one_wants_to_mark()
            relay.send(signal.SIGKILL)
            relay.exit_code()
            outbox.end_those_who_want_to_mark()
    with worker(outbox.url, OUTBOX_RELAY, **settings(broker)) as relay:
        outbox.wait_until_empty()
        relay.send(signal.SIGTERM)
        assert relay.exit_code() == 0

    result = arrived(broker.bootstrap_servers)
    assert result.first == outbox.committed()
    assert sum(map(len, result.first.values())) == KILLS * 20
    assert result.duplicates >= KILLS * 10  # the first round of every one of them
    assert outbox.attempts() == {0}


def test_broker_killed_under_load_costs_nothing_but_time(outbox: Outbox, broker: KafkaServer) -> None:
    with worker(outbox.url, OUTBOX_RELAY, **settings(broker)) as relay:
        outbox.add(keys=50, each=20)
        outbox.wait_until_empty()
        before = memory_of(relay.pid)

        for _ in range(3):
            outbox.add(keys=50, each=20)
            eventually_here(lambda: outbox.waiting() < 1_000)
            broker.kill()
            relay.logs("outage began", times=relay.events.count("outage began") + 1, within=60)
            outbox.add(keys=50, each=20)
            broker.start()
            outbox.wait_until_empty(within=120)
            relay.logs("outage ended", times=relay.events.count("outage began"))

        assert memory_of(relay.pid) < before + 40
        relay.send(signal.SIGTERM)
        assert relay.exit_code() == 0
    assert relay.events.count("outage began") == 3

    result = arrived(broker.bootstrap_servers)
    assert result.first == outbox.committed()
    assert outbox.attempts() == {0}


def test_worker_that_is_stopped_while_the_broker_is_dead_ends_in_time_and_loses_nothing(
    outbox: Outbox, broker: KafkaServer
) -> None:
    with worker(outbox.url, OUTBOX_RELAY, **settings(broker)) as relay:
        outbox.add(keys=1)
        outbox.wait_until_empty()
        broker.kill()
        outbox.add(keys=1)
        relay.logs("outage began", within=60)
        relay.send(signal.SIGTERM)
        assert relay.exit_code(within=30) == 0
    broker.start()

    facts = run_json(outbox.url, "run-once", OUTBOX_RELAY, **settings(broker))

    assert facts["published"] == 1
    assert arrived(broker.bootstrap_servers).first == outbox.committed()
    assert outbox.attempts() == {0}


def test_message_that_is_too_large_among_a_thousand_is_parked_alone(
    outbox: Outbox, broker: KafkaServer
) -> None:
    outbox.add(keys=10, each=50)
    outbox.add_one(3, padding=2_000_000)
    outbox.add(keys=10, each=50)
    with worker(outbox.url, OUTBOX_RELAY, **settings(broker)) as relay:
        outbox.wait_until_empty()
        relay.logs("message parked")
        alert = next(line for line in relay.lines if line["event"] == "message parked")

    assert (alert["level"], alert["topic"]) == ("error", DEAL_CHAT_STATUS_CHANGED_TOPIC)
    assert outbox.dead() == [alert["error_code"]]
    result = arrived(broker.bootstrap_servers)
    assert result.first == outbox.committed()
    assert sum(map(len, result.first.values())) == 1_000
    (parked,) = run_json(outbox.url, "outbox", "list")
    assert parked["event_id"] == alert["event_id"]
    assert outbox.attempts() == {0, 1}


async def test_two_relays_without_a_lock_between_them_put_no_key_out_of_order(
    outbox: Outbox, broker: KafkaServer
) -> None:
    outbox.add(keys=20, each=100)
    clock, options = SystemClock(), OutboxRelayOptions(batch_size=100)
    async with connection_pool(outbox.url, size=4) as pool, asyncio.TaskGroup() as both:
        for _ in range(2):
            both.create_task(_relay(PooledConnections(pool), broker, clock, options))

    result = arrived(broker.bootstrap_servers)
    assert result.first == outbox.committed()
    assert result.duplicates > 0, "the two never met, so this showed nothing"


async def _relay(
    connections: PooledConnections, broker: KafkaServer, clock: SystemClock, options: OutboxRelayOptions
) -> None:
    async with KafkaEventPublisher(KafkaSecurity(bootstrap_servers=broker.bootstrap_servers)) as publisher:
        relay = OutboxRelay(
            queue=PostgresOutboxQueue(connections),
            publisher=publisher,
            locks=UncontendedRunLocks(),
            clock=clock,
            telemetry=MemoryRelayTelemetry(),
            options=options,
            new_id=uuid4,
            spread=random.random,
        )
        report = await relay.run_once(StopSignal())
        assert report.error_code is None
