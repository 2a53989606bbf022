"""How fast the relay brings the outbox to Kafka, as a share of what aiokafka's producer reaches in the same run.

    python -m benchmarks.outbox_relay            # everything, about three minutes
    python -m benchmarks.outbox_relay --quick    # fewer messages and rounds: to see that it works

The limit is aiokafka's own idempotent producer, all replicas acknowledging, sending the same messages from memory. It
and the relay, from the table to the mark, alternate round by round; a ratio is formed within its round. Last comes the
time from a message's commit to its acknowledgement while the relay polls as it does by default.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from uuid import UUID, uuid4

import psycopg
from aiokafka import AIOKafkaProducer
from attrs import define, field, frozen
from messenger_jobs.adapters.kafka.event_publisher import KafkaEventPublisher
from messenger_jobs.adapters.kafka.security import KafkaSecurity
from messenger_jobs.adapters.postgres.connection_pool import PooledConnections, connection_pool
from messenger_jobs.adapters.postgres.outbox_queue import PostgresOutboxQueue
from messenger_jobs.adapters.postgres.run_lock import PostgresRunLocks
from messenger_jobs.adapters.system.clock import SystemClock
from messenger_jobs.adapters.telemetry.logging import configure_logging
from messenger_jobs.adapters.telemetry.relay_combined import CombinedRelayTelemetry
from messenger_jobs.application.event_envelope import envelope
from messenger_jobs.application.integration_events import DEAL_CHAT_STATUS_CHANGED_TOPIC
from messenger_jobs.application.options import OutboxRelayOptions
from messenger_jobs.application.outbox_relay import OutboxRelay
from messenger_jobs.application.ports.event_publisher import Event, EventPublisher, Published, Receipt
from messenger_jobs.application.stop_signal import StopSignal
from rich.console import Console
from rich.table import Table

from benchmarks.provision_cycle import run
from benchmarks.server import benchmark_server, execute, scalar
from tests.support.eventually import eventually
from tests.support.kafka_programs import kafka_programs
from tests.support.kafka_server import KafkaServer, format_storage

AT_LEAST: Final = 0.5
BEHIND_THE_POLL: Final = 0.050
"""Seconds that the median may take beyond one polling interval."""
PARTITIONS: Final = 6
_FILL: Final = """
insert into messenger.outbox_messages (event_id, topic, message_key, aggregate_type, aggregate_id, event_type,
    contract_version, payload, headers, occurred_at)
select gen_random_uuid(), '{topic}', deal, 'DealChatProvision', deal, 'DealChatStatusChanged', 1,
    jsonb_build_object('dealId', deal, 'chatId', gen_random_uuid(), 'status', 'Ready', 'occurredAt', now()),
    jsonb_build_object('event-type', 'DealChatStatusChanged', 'contract-version', '1', 'correlation-id', deal), now()
from (select gen_random_uuid()::text as deal from generate_series(1, {messages})) deals
"""


@define(eq=False)
class Watched:
    """Passes events on and remembers when each was acknowledged, by its ``event-id``."""

    publisher: EventPublisher
    acknowledged: dict[str, float] = field(factory=dict[str, float])

    async def publish(self, events: Sequence[Event]) -> Sequence[Receipt]:
        """See `EventPublisher.publish`."""
        receipts = await self.publisher.publish(events)
        now = time.perf_counter()
        for event, receipt in zip(events, receipts, strict=True):
            if isinstance(receipt, Published):
                self.acknowledged[dict(event.headers)["event-id"].decode()] = now
        return receipts


@frozen(kw_only=True)
class Parts:
    """A relay and what it is made of."""

    relay: OutboxRelay
    queue: PostgresOutboxQueue
    publisher: Watched


@asynccontextmanager
async def parts(url: str, broker: str) -> AsyncGenerator[Parts]:
    """As the worker builds them."""
    clock, options = SystemClock(), OutboxRelayOptions()
    async with connection_pool(url, size=2) as pool, KafkaEventPublisher(security(broker)) as kafka:
        queue, publisher = PostgresOutboxQueue(PooledConnections(pool)), Watched(kafka)
        relay = OutboxRelay(
            queue=queue,
            publisher=publisher,
            locks=PostgresRunLocks(database_url=url, ttl=options.lock_ttl, clock=clock),
            clock=clock,
            telemetry=CombinedRelayTelemetry(),
            options=options,
            new_id=uuid4,
            spread=random.random,
        )
        yield Parts(relay=relay, queue=queue, publisher=publisher)


def security(broker: str) -> KafkaSecurity:
    """An open listener."""
    return KafkaSecurity(bootstrap_servers=broker)


def fill(url: str, messages: int) -> None:
    """Nothing but ``messages`` that wait, each of a deal of its own."""
    execute(
        url,
        "truncate messenger.outbox_messages",
        _FILL.format(topic=DEAL_CHAT_STATUS_CHANGED_TOPIC, messages=messages),
        "analyze messenger.outbox_messages",
        "checkpoint",
    )


async def relayed_per_second(url: str, broker: str, messages: int) -> float:
    """From the table to the mark, all of them."""
    async with parts(url, broker) as relaying:
        await relaying.queue.backlog()  # connects, so that the relay does not wait for that
        started = time.perf_counter()
        report = await relaying.relay.run_once(StopSignal())
        seconds = time.perf_counter() - started
    if report.published != messages or scalar(
        url, "select count(*) from messenger.outbox_messages where published_at is null"
    ):
        raise RuntimeError(f"the relay was to publish {messages} messages, but: {report}")
    return messages / seconds


async def produced_per_second(url: str, broker: str, messages: int) -> float:
    """The same messages from memory, by aiokafka's own producer."""
    async with parts(url, broker) as relaying:
        events = [
            envelope(each.message)
            for each in await relaying.queue.unpublished(after_id=0, up_to=2**62, limit=messages)
        ]
    producer: Any = AIOKafkaProducer(bootstrap_servers=broker, enable_idempotence=True, acks="all")
    await producer.start()
    try:
        started = time.perf_counter()
        sent = [
            await producer.send(event.topic, key=event.key, value=event.value, headers=list(event.headers))
            for event in events
        ]
        await asyncio.gather(*sent)
        return messages / (time.perf_counter() - started)
    finally:
        await producer.stop()


async def latencies(url: str, broker: str, messages: int) -> list[float]:
    """Seconds from the commit of each of ``messages`` to its acknowledgement; they come at random moments."""
    committed: dict[str, float] = {}
    insert = _FILL.replace("gen_random_uuid(), '{topic}'", "%s, '{topic}'")
    statement = insert.format(topic=DEAL_CHAT_STATUS_CHANGED_TOPIC, messages=1)
    stop = StopSignal()
    async with parts(url, broker) as relaying, asyncio.TaskGroup() as running:
        running.create_task(relaying.relay.run(stop))
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            for _ in range(messages):
                await asyncio.sleep(random.uniform(0.0, 0.2))
                event_id: UUID = uuid4()
                await connection.execute(statement.encode(), (event_id,))
                committed[str(event_id)] = time.perf_counter()
        await eventually(lambda: committed.keys() <= relaying.publisher.acknowledged.keys())
        stop.request()
    return [relaying.publisher.acknowledged[event_id] - at for event_id, at in committed.items()]


def main() -> int:
    """Measure, show, and say by the exit code whether everything was reached."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer messages and rounds")
    quick = parser.parse_args().quick
    messages, rounds, single = (2_000, 1, 20) if quick else (20_000, 5, 200)
    configure_logging("json", "error")
    relayed: list[float] = []
    produced: list[float] = []
    with TemporaryDirectory(prefix="messenger-jobs-benchmark-") as folder, benchmark_server() as server:
        programs, url = kafka_programs(), server.url()
        folders = [Path(folder) / name for name in ("template", "server")]
        for each in folders:
            each.mkdir()
        with KafkaServer(folders[1], programs, format_storage(programs, folders[0])) as kafka:
            broker = kafka.bootstrap_servers
            kafka.topic(PARTITIONS, name=DEAL_CHAT_STATUS_CHANGED_TOPIC)
            for _ in range(rounds):
                fill(url, messages)
                produced.append(run(produced_per_second(url, broker, messages)))
                relayed.append(run(relayed_per_second(url, broker, messages)))
            fill(url, 0)
            waited = run(latencies(url, broker, single))
    ratios = [relay / limit for relay, limit in zip(relayed, produced, strict=True)]
    polling_interval = OutboxRelayOptions().polling_interval.total_seconds()
    longest = polling_interval + BEHIND_THE_POLL
    table = Table("relay, messages/s", "producer, messages/s", "share", "least .. most", "asked")
    table.add_row(
        f"{statistics.median(relayed):,.0f}",
        f"{statistics.median(produced):,.0f}",
        f"{statistics.median(ratios):.2f}",
        f"{min(ratios):.2f} .. {max(ratios):.2f}",
        f"{AT_LEAST:.2f}",
    )
    console = Console(width=110)
    console.print(table)
    console.print(
        f"From commit to acknowledgement: median {statistics.median(waited) * 1000:.0f} ms, "
        f"longest {max(waited) * 1000:.0f} ms (asked: a median under {longest * 1000:.0f} ms)."
    )
    return 0 if statistics.median(ratios) >= AT_LEAST and statistics.median(waited) < longest else 1


if __name__ == "__main__":
    sys.exit(main())
