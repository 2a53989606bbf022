"""The consumer as a process: a flood of messages, good and bad, through everything that happens to a database."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from uuid import UUID, uuid4

import psycopg
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from messenger_jobs.adapters.kafka.deal_created_dead_letter import (
    DEAL_CREATED_GROUP,
    DEAL_CREATED_TOPIC,
    dead_letter_topic,
)
from messenger_jobs.adapters.local.postgres_server import PostgresServer
from messenger_jobs.adapters.postgres.migrations import migrate
from messenger_jobs.application.provision_created_deal import DEAL_CREATED

from tests.e2e.rows import Rows
from tests.support.deal_created_messages import a_message
from tests.support.eventually import eventually_here
from tests.support.kafka_log import records_of
from tests.support.kafka_server import KafkaServer
from tests.support.kafka_servers import NewKafkaServer
from tests.support.processes import JOB, worker

pytestmark = [pytest.mark.real_kafka, pytest.mark.timeout(400)]

MESSAGES: Final = 10_000
DUPLICATES: Final = 500
GARBAGE: Final = 100
PARTITIONS: Final = 4
RACING: Final = 10.0  # seconds


@pytest.fixture
def broker(own_kafka: NewKafkaServer) -> KafkaServer:
    broker = own_kafka()
    broker.topic(PARTITIONS, name=DEAL_CREATED_TOPIC)
    broker.topic(name=dead_letter_topic(DEAL_CREATED_TOPIC))
    return broker


@pytest.fixture
def rows(own_postgres_server: PostgresServer) -> Rows:
    migrate(own_postgres_server.url())
    return Rows(own_postgres_server.url())


def settings(broker: KafkaServer) -> dict[str, str]:
    return {"MESSENGER_KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap_servers}


def send(broker: KafkaServer, messages: list[tuple[bytes, bytes]]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 5})
    for key, value in messages:
        producer.produce(DEAL_CREATED_TOPIC, key=key, value=value)
        producer.poll(0)
    assert producer.flush(60) == 0


def of_deal(deal_id: UUID) -> tuple[bytes, bytes]:
    return str(deal_id).encode(), a_message(deal_id, event_id=uuid4(), title=f"Flat of {deal_id}")


def unread(broker: KafkaServer) -> int:
    """Messages that the group has not committed yet."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": DEAL_CREATED_GROUP})
    try:
        places = [TopicPartition(DEAL_CREATED_TOPIC, number) for number in range(PARTITIONS)]
        committed = [max(0, place.offset) for place in consumer.committed(places, timeout=30)]
        ends = [consumer.get_watermark_offsets(place, timeout=30)[1] for place in places]
        return sum(ends) - sum(committed)
    finally:
        consumer.close()


def one_of_each(url: str) -> tuple[int, int, int]:
    """Deals, chats and ready provisions."""
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "select count(distinct p.deal_id), (select count(*) from messenger.chats),"
            " count(*) filter (where p.status = 'Ready') from messenger.deal_chat_provisions p"
        ).fetchone()
    assert row is not None
    return row


def test_flood_with_duplicates_garbage_and_a_database_that_restarts(
    own_postgres_server: PostgresServer, rows: Rows, broker: KafkaServer
) -> None:
    chance = random.Random(20261129)
    deals = [uuid4() for _ in range(MESSAGES - DUPLICATES - GARBAGE)]
    good = [of_deal(deal_id) for deal_id in deals]
    messages = good + chance.sample(good, DUPLICATES)
    garbage = [
        (chance.randbytes(16), chance.choice([b"", b"{", b"[1]", b'{"eventType": 7}']) + chance.randbytes(9))
        for _ in range(GARBAGE)
    ]
    messages += garbage
    chance.shuffle(messages)

    with worker(rows.url, DEAL_CREATED, **settings(broker)) as consumer:
        send(broker, messages)
        eventually_here(lambda: one_of_each(rows.url)[0] > len(deals) // 3, within=120)
        own_postgres_server.stop("immediate")
        consumer.logs("outage began", within=60)
        own_postgres_server.start()
        eventually_here(lambda: unread(broker) == 0, within=240)
        consumer.send(signal.SIGTERM)
        assert consumer.exit_code(within=30) == 0

    assert one_of_each(rows.url) == (len(deals), len(deals), len(deals))
    letters = records_of(broker.bootstrap_servers, dead_letter_topic(DEAL_CREATED_TOPIC))
    # At least once, as everything: what was in hand when the database went may have been set aside twice.
    assert {(letter.key, letter.value) for letter in letters} == set(garbage)
    assert all(dict(letter.headers)["dlq-reason"].startswith(b"Message:") for letter in letters)
    assert rows.violations(max_attempts=8) == []


@contextmanager
def deals_created_all_the_time(broker: KafkaServer, url: str) -> Iterator[list[UUID]]:
    """Within, deals are created whose intent stands in the table just before their message comes.

    They are due from that moment on: due before it, one cycle of the job would go on with them, and win them all.
    """
    deals: list[UUID] = []
    stop = threading.Event()

    def create() -> None:
        while not stop.wait(0.05):
            batch = [uuid4() for _ in range(20)]
            with psycopg.connect(url) as connection:
                connection.cursor().executemany(
                    "with p as (insert into messenger.deal_chat_provisions (id, deal_id, title, next_attempt_at,"
                    " created_at, updated_at) values (gen_random_uuid(), %s, 'Flat', now(),"
                    " now() - interval '1 hour', now() - interval '1 hour') returning id)"
                    " insert into messenger.deal_chat_provision_members select id, gen_random_uuid(), 'Buyer' from p",
                    [(deal_id,) for deal_id in batch],
                )
            deals.extend(batch)
            send(broker, [of_deal(deal_id) for deal_id in (*batch, *batch[:2])])

    creating = threading.Thread(target=create)
    creating.start()
    try:
        yield deals
    finally:
        stop.set()
        creating.join()


def test_consumer_and_retry_job_racing_for_the_same_deals_make_one_chat_each(
    rows: Rows, broker: KafkaServer
) -> None:
    racing = {"POLLING_INTERVAL": 0.15, "BATCH_SIZE": 10, "CONCURRENCY": 2}
    with (
        worker(rows.url, JOB, **racing, **settings(broker)) as retrying,
        worker(rows.url, DEAL_CREATED, **settings(broker)) as consuming,
    ):
        with deals_created_all_the_time(broker, rows.url) as deals:
            time.sleep(RACING)
        eventually_here(lambda: one_of_each(rows.url)[2] == len(deals), within=120)
        eventually_here(lambda: unread(broker) == 0, within=120)

    assert one_of_each(rows.url) == (len(deals), len(deals), len(deals))
    assert rows.violations(max_attempts=8) == []
    won = Counter(retrying.events)["chat provisioned"], Counter(consuming.events)["chat provisioned"]
    assert sum(won) == len(deals)
    assert min(won) > 0, "only one of the two ever came first, so this showed nothing"
