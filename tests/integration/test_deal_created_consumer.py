"""The deal-created consumer on a real broker and a real database."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from datetime import timedelta
from functools import partial
from importlib.util import find_spec
from typing import Any, cast
from uuid import UUID, uuid4

import psycopg
import pytest
from aiokafka import TopicPartition  # type: ignore[import-untyped]  # ships no types
from attrs import frozen
from confluent_kafka import Message, Producer
from messenger_jobs.adapters.kafka.deal_created_client import DealCreatedClient
from messenger_jobs.adapters.kafka.deal_created_consumer import STOP_BOUND
from messenger_jobs.adapters.kafka.deal_created_session import SessionTimes
from messenger_jobs.adapters.kafka.security import KafkaSecurity
from messenger_jobs.application.chat_provision_retry import ChatProvisionRetry
from messenger_jobs.application.cycle_report import AttemptReport, Cycle, Outcome
from messenger_jobs.application.ports.consumer_telemetry import DeadLetter, MessagePlace
from messenger_jobs.application.provision_created_deal import CreatedDeal, ProvisionCreatedDeal

from tests.support.builders import some_id
from tests.support.deal_created_consumers import (
    CrmTopic,
    RunningConsumer,
    a_client,
    consuming,
    crm_topic,
)
from tests.support.deal_created_messages import a_message
from tests.support.eventually import eventually
from tests.support.kafka_server import KafkaServer
from tests.support.kafka_servers import KafkaTestServer, NewKafkaServer
from tests.support.missing_server import missing_server
from tests.support.postgres_proxy import through_proxy

pytestmark = pytest.mark.real_kafka

_STATE = """
select (select count(*) from messenger.deal_chat_provisions),
    (select count(*) from messenger.deal_chat_provisions where status = 'Ready'),
    (select count(*) from messenger.chats), (select count(distinct deal_id) from messenger.chats),
    (select count(*) from messenger.chat_events), (select count(*) from messenger.outbox_messages)
"""


def deals(count: int, *, first: int = 1) -> list[UUID]:
    return [some_id(10_000 + number) for number in range(first, first + count)]


def assert_one_chat_for_each(database_url: str, created: list[UUID]) -> None:
    count = len(created)
    with psycopg.connect(database_url) as connection:
        assert connection.execute(_STATE).fetchone() == (count,) * 6
        ready = connection.execute(
            "select deal_id from messenger.deal_chat_provisions where status = 'Ready'"
        )
        assert {row[0] for row in ready} == set(created)


def headers_of(message: Message) -> list[tuple[str, bytes | None]]:
    return cast("list[tuple[str, bytes | None]]", message.headers() or [])


@pytest.fixture
def topic(kafka: KafkaTestServer) -> CrmTopic:
    return crm_topic(kafka)


@pytest.fixture
def wide_topic(kafka: KafkaTestServer) -> CrmTopic:
    return crm_topic(kafka, partitions=6)


async def test_created_deals_get_their_chats(topic: CrmTopic, database_url: str) -> None:
    created = deals(250)
    topic.send(*map(a_message, created))
    async with consuming(topic, database_url) as consumer:
        await eventually(lambda: consumer.handled == 250)
        await eventually(lambda: topic.committed() == [250])
    assert_one_chat_for_each(database_url, created)
    assert [place.offset for place, _ in consumer.telemetry.reports] == list(range(250))
    assert consumer.telemetry.troubles == []
    assert consumer.telemetry.assignments == [{0}, set()]


async def test_message_that_comes_while_it_waits_is_handled(topic: CrmTopic, database_url: str) -> None:
    first, second = created = deals(2)
    async with consuming(topic, database_url) as consumer:
        await eventually(lambda: bool(consumer.telemetry.assignments))
        topic.send(a_message(first))
        await eventually(lambda: consumer.handled == 1)
        topic.send(a_message(second))
        await eventually(lambda: consumer.handled == 2)
    assert_one_chat_for_each(database_url, created)


async def test_duplicates_change_nothing(topic: CrmTopic, database_url: str) -> None:
    (deal,) = created = deals(1)
    topic.send(a_message(deal), a_message(deal), a_message(deal, event_id=some_id(1)))
    async with consuming(topic, database_url) as consumer:
        await eventually(lambda: consumer.handled == 3)
    assert consumer.telemetry.outcomes == [Outcome.PROVISIONED, Outcome.DUPLICATE, Outcome.DUPLICATE]
    assert_one_chat_for_each(database_url, created)


async def test_topic_that_is_read_again_from_its_beginning_changes_nothing(
    topic: CrmTopic, database_url: str
) -> None:
    created = deals(30)
    topic.send(*map(a_message, created))
    async with consuming(topic, database_url) as consumer:
        await eventually(lambda: consumer.handled == 30)
    topic.commit(0)
    async with consuming(topic, database_url) as consumer:
        await eventually(lambda: consumer.handled == 30)
    assert set(consumer.telemetry.outcomes) == {Outcome.DUPLICATE}
    assert_one_chat_for_each(database_url, created)


class NeverCommits(DealCreatedClient):
    """A member that dies before its first offset is committed."""

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        del offsets
        await asyncio.Event().wait()


async def test_crash_between_the_transaction_and_the_offset_delivers_again_and_changes_nothing(
    topic: CrmTopic, database_url: str
) -> None:
    created = deals(40)
    topic.send(*map(a_message, created))

    def client() -> DealCreatedClient:
        return NeverCommits(KafkaSecurity(bootstrap_servers=topic.bootstrap_servers), group=topic.group)

    async with consuming(topic, database_url, new_client=client) as crashing:
        await eventually(lambda: crashing.handled == 40)
        crashing.task.cancel()
        with suppress(asyncio.CancelledError):
            await crashing.task
    assert topic.committed() == [0]
    async with consuming(topic, database_url) as consumer:
        await eventually(lambda: consumer.handled == 40)
        await eventually(lambda: topic.committed() == [40])
    assert set(consumer.telemetry.outcomes) == {Outcome.DUPLICATE}
    assert_one_chat_for_each(database_url, created)


async def test_what_cannot_be_understood_goes_to_the_dead_letters_byte_for_byte_and_blocks_nobody(
    topic: CrmTopic, database_url: str
) -> None:
    headers: list[tuple[str, bytes | None]] = [
        ("a", b"\xff\x00"),
        ("a", b""),
        ("none", None),
        ("dlq-reason", b"old"),
    ]
    garbage: list[dict[str, Any]] = [
        {"value": b"\xff\x00not json", "key": b"\x00\xff", "headers": headers},
        {"value": b"", "key": b"", "headers": []},
        {"value": None, "key": b"tombstone"},
        {"value": a_message(some_id(1), lambda document: document.update(contractVersion=2))},
        {"value": a_message(some_id(1), title="x" * 300), "key": str(some_id(1)).encode()},
    ]
    created = deals(len(garbage) + 1)
    messages: list[dict[str, Any]] = [{"value": a_message(created[0])}]
    for poison, deal in zip(garbage, created[1:], strict=True):
        messages += [poison, {"value": a_message(deal)}]
    topic.send_whole(messages)
    async with consuming(topic, database_url) as consumer:
        await eventually(lambda: consumer.handled == len(created))
        await eventually(lambda: topic.committed() == [len(messages)])
    assert_one_chat_for_each(database_url, created)
    letters = topic.dead_letters(len(garbage))
    for number, (poison, letter) in enumerate(zip(garbage, letters, strict=True)):
        assert (letter.value(), letter.key()) == (poison["value"], poison.get("key"))
        sent = poison.get("headers", [])
        got = headers_of(letter)
        assert got[: len(sent)] == sent
        added = {name: (value or b"").decode() for name, value in got[len(sent) :]}
        reason, explanation = added.pop("dlq-reason"), added.pop("dlq-explanation")
        assert added == {
            "dlq-topic": topic.name,
            "dlq-partition": "0",
            "dlq-offset": str(2 * number + 1),
            "dlq-consumer-group": topic.group,
        }
        place = MessagePlace(partition=0, offset=2 * number + 1)
        assert consumer.telemetry.dead_letters[number] == (
            place,
            DeadLetter(reason=reason, sentence=explanation),
        )
    reasons = [letter.reason.removeprefix("Message:") for _, letter in consumer.telemetry.dead_letters]
    assert reasons == ["NOT_UTF8", "EMPTY", "EMPTY", "UNKNOWN_CONTRACT_VERSION", "TITLE_TOO_LONG"]


async def test_message_that_is_too_large_for_the_dead_letters_leaves_a_letter_that_says_where_it_is(
    kafka: KafkaTestServer, database_url: str
) -> None:
    topic = crm_topic(kafka, dead_letter_settings={"max.message.bytes": "2000"})
    topic.send(b"x" * 1900, a_message(deals(1)[0]))
    async with consuming(topic, database_url) as consumer:
        await eventually(lambda: consumer.handled == 1)
        await eventually(lambda: topic.committed() == [2])
    ((place, told),) = consumer.telemetry.dead_letters
    assert (place.offset, told.reason, told.value_lost) == (0, "Message:NOT_JSON", True)
    (letter,) = topic.dead_letters(1)
    assert (letter.key(), letter.value()) == (b"0/0", None)
    headers = dict(headers_of(letter))
    assert (headers["dlq-reason"], headers["dlq-offset"]) == (b"Message:NOT_JSON", b"0")
    assert headers["dlq-value-lost"] == b"true"


async def test_missing_dead_letter_topic_holds_the_message_and_what_is_behind_it(
    kafka: KafkaTestServer, database_url: str
) -> None:
    topic = CrmTopic(kafka.bootstrap_servers, kafka.topic(2))
    topic.send(b"garbage", a_message(deals(1)[0]))
    topic.send(a_message(deals(1, first=2)[0]), partition=1)
    async with consuming(topic, database_url) as consumer:
        await eventually(lambda: consumer.telemetry.trouble_changes == [("began", "broker")])
        await eventually(lambda: consumer.handled == 1)  # of the other partition
        assert topic.committed(2)[0] == 0
        topic.create_dead_letters()
        await eventually(lambda: consumer.handled == 2)
    assert consumer.telemetry.trouble_changes == [("began", "broker"), ("ended", "broker")]
    assert len(topic.dead_letters(1)) == 1


@frozen(kw_only=True)
class Defective(ProvisionCreatedDeal):
    """Has a defect with one deal."""

    unlucky: UUID

    async def __call__(self, deal: CreatedDeal) -> AttemptReport:
        if deal.deal_id == self.unlucky:
            raise ZeroDivisionError
        return await super().__call__(deal)


async def test_message_that_meets_a_defect_is_set_aside_after_some_tries(
    topic: CrmTopic, database_url: str
) -> None:
    before, unlucky, after = created = deals(3)
    topic.send(*map(a_message, created))
    use_case = partial(Defective, unlucky=unlucky)
    async with consuming(topic, database_url, use_case=use_case) as consumer:
        await eventually(lambda: consumer.handled == 2)
        await eventually(lambda: topic.committed() == [3])
    assert_one_chat_for_each(database_url, [before, after])
    assert [place.offset if place else None for place, _ in consumer.telemetry.defects] == [1, 1, 1]
    (letter,) = topic.dead_letters(1)
    assert letter.value() == a_message(unlucky)
    assert dict(headers_of(letter))["dlq-reason"] == b"Defect:ZeroDivisionError"


async def test_partitions_change_hands_without_losing_or_doubling_a_deal(
    wide_topic: CrmTopic, database_url: str
) -> None:
    created = deals(600)
    for partition in range(6):
        wide_topic.send(*map(a_message, created[partition::6]), partition=partition)
    async with AsyncExitStack() as replicas:
        first = await replicas.enter_async_context(consuming(wide_topic, database_url, concurrency=2))
        await eventually(lambda: first.handled > 50)
        second = await replicas.enter_async_context(consuming(wide_topic, database_url, concurrency=2))
        await eventually(lambda: bool(second.telemetry.assignments and second.telemetry.assignments[-1]))
        third = await replicas.enter_async_context(consuming(wide_topic, database_url, concurrency=2))
        await eventually(lambda: bool(third.telemetry.assignments and third.telemetry.assignments[-1]))
        third.stop.request()
        await third.task
        await eventually(lambda: sum(wide_topic.committed(6)) == 600)
        held = [consumer.telemetry.assignments[-1] for consumer in (first, second)]
        await eventually(lambda: not held[0] & held[1])
    assert_one_chat_for_each(database_url, created)
    outcomes = [outcome for replica in (first, second, third) for outcome in replica.telemetry.outcomes]
    assert outcomes.count(Outcome.PROVISIONED) == 600
    assert first.telemetry.troubles == second.telemetry.troubles == third.telemetry.troubles == []


async def test_replica_that_vanishes_is_replaced(topic: CrmTopic, database_url: str) -> None:
    created = deals(60)
    topic.send(*map(a_message, created[:30]))
    async with AsyncExitStack() as replicas:
        first = await replicas.enter_async_context(consuming(topic, database_url))
        second = await replicas.enter_async_context(consuming(topic, database_url))
        await eventually(lambda: first.handled + second.handled == 30)
        gone, left = (first, second) if first.handled else (second, first)
        gone.task.cancel()
        with suppress(asyncio.CancelledError):
            await gone.task
        topic.send(*map(a_message, created[30:]))
        await eventually(lambda: left.handled >= 30)
        await eventually(lambda: topic.committed() == [60])
    assert_one_chat_for_each(database_url, created)


async def test_database_that_goes_and_comes_back_loses_nothing(topic: CrmTopic, database_url: str) -> None:
    created = deals(400)
    topic.send(*map(a_message, created[:200]))
    async with through_proxy(database_url) as (proxy, url), consuming(topic, url) as consumer:
        await eventually(lambda: consumer.handled > 20)
        proxy.refuse()
        proxy.cut()
        await eventually(lambda: consumer.telemetry.trouble_changes == [("began", "database")])
        topic.send(*map(a_message, created[200:]))
        handled = consumer.handled
        assert topic.committed()[0] <= handled + 1  # and no offset of a message that is not handled
        await proxy.accept()
        await eventually(lambda: topic.committed() == [400])
    assert_one_chat_for_each(database_url, created)
    assert consumer.telemetry.trouble_changes == [("began", "database"), ("ended", "database")]
    assert (consumer.telemetry.dead_letters, consumer.telemetry.defects) == ([], [])


async def test_partition_that_waits_for_a_row_does_not_hold_up_the_others(
    wide_topic: CrmTopic, database_url: str
) -> None:
    blocked, *others = created = deals(6)
    wide_topic.send(a_message(blocked), partition=0)
    with psycopg.connect(database_url) as somebody:
        somebody.execute(
            "insert into messenger.deal_chat_provisions (id, deal_id, title, next_attempt_at, created_at, updated_at)"
            " values (%s, %s, 't', now(), now(), now())",
            (uuid4(), blocked),
        )
        async with consuming(wide_topic, database_url) as consumer:
            for partition, deal in enumerate(others, start=1):
                wide_topic.send(a_message(deal), partition=partition)
            await eventually(lambda: consumer.handled == 5)
            await eventually(lambda: consumer.telemetry.trouble_changes == [("began", "database")])
            somebody.rollback()
            await eventually(lambda: consumer.handled == 6)
    assert_one_chat_for_each(database_url, created)


async def test_consumer_and_retry_job_on_the_same_deals_make_one_chat_each(
    wide_topic: CrmTopic, database_url: str
) -> None:
    """The intents are there, stuck: whoever comes first provisions, the other one leaves it."""
    created = deals(300)
    with psycopg.connect(database_url) as connection, connection.cursor() as cursor:
        cursor.executemany(
            "insert into messenger.deal_chat_provisions (id, deal_id, title, next_attempt_at, created_at, updated_at)"
            " values (%s, %s, 't', now() - interval '1 day', now() - interval '1 day', now() - interval '1 day')",
            [(deal, deal) for deal in created],
        )
        cursor.executemany(
            "insert into messenger.deal_chat_provision_members values (%s, %s, 'Buyer')",
            [(deal, some_id(7)) for deal in created],
        )
    for partition in range(6):
        wide_topic.send(*map(a_message, created[partition::6]), partition=partition)
    async with consuming(wide_topic, database_url) as consumer:
        await eventually(lambda: consumer.handled > 0)
        retried = await retry_from_the_end(consumer)
        await eventually(lambda: consumer.handled == 300)
    assert_one_chat_for_each(database_url, created)
    provisioned = consumer.telemetry.outcomes.count(Outcome.PROVISIONED)
    assert provisioned + retried.count(Outcome.PROVISIONED) == 300
    assert retried.count(Outcome.PROVISIONED) > 0


async def retry_from_the_end(consumer: RunningConsumer) -> list[Outcome]:
    """One cycle of the retry job, as another process would run it."""
    job = ChatProvisionRetry(store=consumer.store, provisioning=consumer.provisioning)
    cycle = Cycle(job=job.name, run_id=some_id(9), as_of=consumer.provisioning.clock.now())
    rows = list(await job.candidates(as_of=cycle.as_of, after=None, limit=1000))
    return [(await job.attempt(row, cycle)).outcome for row in reversed(rows)]


async def test_stop_finishes_the_message_in_hand_and_commits_it(topic: CrmTopic, database_url: str) -> None:
    created = deals(500)
    topic.send(*map(a_message, created))
    async with consuming(topic, database_url) as consumer:
        await eventually(lambda: consumer.handled > 10)
        consumer.stop.request()
        await consumer.task
        handled = consumer.handled
        assert handled < 500
        assert topic.committed() == [handled]
    async with consuming(topic, database_url) as consumer:
        await eventually(lambda: consumer.handled == 500 - handled)
    assert set(consumer.telemetry.outcomes) == {Outcome.PROVISIONED}
    assert_one_chat_for_each(database_url, created)


async def test_stop_is_bounded_while_the_database_is_silent(topic: CrmTopic, database_url: str) -> None:
    topic.send(*map(a_message, deals(200)))
    times = SessionTimes(answer=3.0, close_grace=1.0)
    async with through_proxy(database_url) as (proxy, url), consuming(topic, url, times=times) as consumer:
        await eventually(lambda: consumer.handled > 10)
        proxy.stall()
        consumer.stop.request()
        async with asyncio.timeout(STOP_BOUND):
            await consumer.task
        assert topic.committed()[0] <= consumer.handled


class Impatient(DealCreatedClient):
    """A member that the group takes for dead when it has not asked for messages for two seconds."""

    async def start(self) -> None:
        self._consumer._max_poll_interval_ms = 2000
        await super().start()


async def test_partition_stays_with_its_consumer_however_long_a_message_waits(
    topic: CrmTopic, database_url: str
) -> None:
    topic.send(a_message(deals(1)[0]))

    def client() -> DealCreatedClient:
        return Impatient(
            KafkaSecurity(bootstrap_servers=topic.bootstrap_servers),
            group=topic.group,
            session_timeout=timedelta(seconds=3),
            heartbeat_interval=timedelta(milliseconds=500),
        )

    async with through_proxy(database_url) as (proxy, url):
        proxy.refuse()
        async with consuming(topic, url, new_client=client) as consumer:
            await eventually(lambda: consumer.telemetry.trouble_changes == [("began", "database")])
            began = time.monotonic()
            await eventually(lambda: time.monotonic() > began + 5)
            assert consumer.telemetry.assignments == [{0}]
            await proxy.accept()
            await eventually(lambda: consumer.handled == 1)
            assert consumer.telemetry.assignments == [{0}]


async def test_deal_whose_message_a_rule_refuses_is_left_to_the_retry_job(
    topic: CrmTopic, database_url: str
) -> None:
    topic.send(a_message(deals(1)[0], title=""))
    async with consuming(topic, database_url) as consumer:
        await eventually(lambda: topic.committed() == [1])
    assert consumer.telemetry.outcomes == [Outcome.RETRIED]
    with psycopg.connect(database_url) as connection:
        row = connection.execute(
            "select status, attempts, last_error, next_attempt_at > updated_at from messenger.deal_chat_provisions"
        ).fetchone()
    assert row == ("Failed", 1, "ProvisionGuard:EMPTY_TITLE", True)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
async def test_compressed_messages_are_read(topic: CrmTopic, database_url: str, codec: str) -> None:
    if codec != "gzip" and find_spec("cramjam") is None:
        missing_server("cramjam is not installed, which aiokafka needs for all codecs but gzip")
    created = deals(20)
    topic.send(*map(a_message, created), settings={"compression.type": codec})
    async with consuming(topic, database_url) as consumer:
        await eventually(lambda: consumer.handled == 20)
    assert_one_chat_for_each(database_url, created)


async def test_deals_of_an_aborted_transaction_were_not_created(topic: CrmTopic, database_url: str) -> None:
    aborted, committed = deals(2)
    producer = Producer({"bootstrap.servers": topic.bootstrap_servers, "transactional.id": topic.name})
    producer.init_transactions()
    for deal, end in ((aborted, producer.abort_transaction), (committed, producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(topic.name, a_message(deal), partition=0)
        producer.flush()
        end()
    async with consuming(topic, database_url) as consumer:
        await eventually(lambda: consumer.handled == 1)
    assert_one_chat_for_each(database_url, [committed])


async def test_cancellation_propagates_and_leaves_neither_tasks_nor_transactions(
    topic: CrmTopic, database_url: str
) -> None:
    topic.send(*map(a_message, deals(500)))
    before = asyncio.all_tasks()
    async with consuming(topic, database_url) as consumer:
        await eventually(lambda: consumer.handled > 10)
        consumer.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await consumer.task
    assert asyncio.all_tasks() <= before
    with psycopg.connect(database_url) as connection:
        count = connection.execute("select count(*) from messenger.chats").fetchone()
        assert count is not None
        assert_one_chat_for_each(database_url, deals(count[0]))


class TestBroker:
    """What only a broker of the test's own shows."""

    @pytest.fixture
    def broker(self, own_kafka: NewKafkaServer) -> KafkaServer:
        return own_kafka()

    async def test_broker_that_is_killed_and_comes_back_loses_nothing(
        self, broker: KafkaServer, database_url: str
    ) -> None:
        topic = crm_topic(broker, partitions=2)
        created = deals(400)
        topic.send(*map(a_message, created[:200]))
        topic.send(*map(a_message, created[200:300]), partition=1)
        async with consuming(topic, database_url) as consumer:
            await eventually(lambda: consumer.handled > 20)
            broker.kill()
            await eventually(lambda: ("began", "broker") in consumer.telemetry.trouble_changes)
            broker.start()
            topic.send(*map(a_message, created[300:]))
            await eventually(lambda: sum(topic.committed(2)) == 400)
            await eventually(lambda: consumer.telemetry.trouble_changes[-1] == ("ended", "broker"))
        assert_one_chat_for_each(database_url, created)
        assert consumer.telemetry.trouble_changes == [("began", "broker"), ("ended", "broker")]
        assert consumer.telemetry.defects == []

    async def test_broker_that_is_down_at_the_start_is_waited_for(
        self, broker: KafkaServer, database_url: str
    ) -> None:
        topic = crm_topic(broker)
        created = deals(3)
        topic.send(*map(a_message, created))
        broker.stop()
        async with consuming(topic, database_url) as consumer:
            await eventually(lambda: consumer.telemetry.trouble_changes == [("began", "broker")])
            broker.start()
            await eventually(lambda: consumer.handled == 3)
            await eventually(lambda: consumer.telemetry.trouble_changes[-1] == ("ended", "broker"))
        assert_one_chat_for_each(database_url, created)
        ((_, trouble), _) = consumer.telemetry.troubles
        assert trouble.code == "CONNECTION_REFUSED"

    async def test_stop_is_bounded_while_joining_a_group_that_does_not_answer(
        self, broker: KafkaServer, database_url: str
    ) -> None:
        topic = crm_topic(broker)
        broker.freeze()
        before = asyncio.all_tasks()
        async with consuming(topic, database_url) as consumer:
            await asyncio.sleep(0.2)
            consumer.stop.request()
            async with asyncio.timeout(STOP_BOUND):
                await consumer.task
        await eventually(lambda: asyncio.all_tasks() <= before)

    @pytest.mark.parametrize("dead", ["killed", "frozen"])
    async def test_stop_is_bounded_while_the_broker_is_dead(
        self, broker: KafkaServer, database_url: str, dead: str
    ) -> None:
        topic = crm_topic(broker)
        topic.send(*map(a_message, deals(500)))
        before = asyncio.all_tasks()
        async with consuming(topic, database_url) as consumer:
            await eventually(lambda: consumer.handled > 10)
            broker.kill() if dead == "killed" else broker.freeze()
            consumer.stop.request()
            async with asyncio.timeout(STOP_BOUND):
                await consumer.task
        await eventually(lambda: asyncio.all_tasks() <= before)

    async def test_wrong_password_is_told_once_and_repaired_without_a_restart(
        self, broker: KafkaServer, database_url: str
    ) -> None:
        topic = crm_topic(broker)
        topic.send(a_message(deals(1)[0]))
        refused = KafkaSecurity(
            bootstrap_servers=broker.address("SASL_PLAINTEXT"),
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="SCRAM-SHA-256",
            sasl_username="messenger",
            sasl_password="wrong",
        )
        securities = [refused, refused, refused]

        def client() -> DealCreatedClient:
            if securities:
                return DealCreatedClient(securities.pop(), group=topic.group)
            return a_client(topic)

        async with consuming(topic, database_url, new_client=client) as consumer:
            await eventually(lambda: consumer.handled == 1)
            await eventually(lambda: consumer.telemetry.trouble_changes[-1] == ("ended", "configuration"))
        assert consumer.telemetry.trouble_changes == [("began", "configuration"), ("ended", "configuration")]
        ((_, trouble), _) = consumer.telemetry.troubles
        assert trouble.code == "AUTHENTICATION_FAILED"
        assert str(trouble.error) == "Kafka refuses the user name or the password"
