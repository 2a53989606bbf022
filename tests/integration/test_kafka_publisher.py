"""The Kafka publisher when the broker is killed, frozen, emptied, or says no."""

from __future__ import annotations

import asyncio
import gc
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trustme
from messenger_jobs.adapters.kafka.event_publisher import KafkaEventPublisher
from messenger_jobs.adapters.kafka.security import KafkaSecurity, SaslMechanism, SecurityProtocol
from messenger_jobs.application.ports.errors import Misconfigured
from messenger_jobs.application.ports.event_publisher import (
    Event,
    EventPublisher,
    NotPublished,
    Published,
    Receipt,
    Unpublishable,
)

from tests.support.eventually import eventually
from tests.support.kafka_log import records_of
from tests.support.kafka_server import PASSWORD, USER, KafkaServer
from tests.support.kafka_servers import KafkaTestServer, NewKafkaServer

pytestmark = pytest.mark.real_kafka

_BOUND = 60.0  # seconds: nothing here takes as long, however slow the machine is

Lanes = Mapping[str, Sequence[str]]
"""What is to be published: for each key its values, in this order."""


@pytest.fixture
def broker(shared_kafka: KafkaServer) -> KafkaServer:
    """One that may be stopped, killed and frozen."""
    return shared_kafka


def publisher_of(broker: KafkaTestServer, send_timeout: float = 3.0, **options: Any) -> KafkaEventPublisher:
    security = KafkaSecurity(bootstrap_servers=broker.bootstrap_servers)
    return KafkaEventPublisher(security, send_timeout=send_timeout, **options)


def by_name(
    broker: KafkaServer,
    protocol: SecurityProtocol = "SASL_SSL",
    mechanism: SaslMechanism | None = "SCRAM-SHA-512",
    *,
    password: str = PASSWORD,
    ca_file: Path | None = None,
) -> KafkaEventPublisher:
    """A publisher that says who it is."""
    named = protocol.startswith("SASL_")
    return KafkaEventPublisher(
        KafkaSecurity(
            bootstrap_servers=broker.address(protocol),
            security_protocol=protocol,
            sasl_mechanism=mechanism if named else None,
            sasl_username=USER if named else None,
            sasl_password=password if named else None,
            ca_file=(ca_file or broker.ca_file) if protocol.endswith("SSL") else None,
        ),
        send_timeout=_BOUND,
    )


def an_event(topic: str, key: str = "key", value: str = "value") -> Event:
    return Event(topic=topic, key=key.encode(), value=value.encode())


class Relay:
    """Publishes every lane in its order, going on in a lane when the broker has what was before."""

    def __init__(self, publisher: EventPublisher, topic: str, lanes: Lanes) -> None:
        self._publisher = publisher
        self._left = {
            key: [an_event(topic, key, value) for value in reversed(values)] for key, values in lanes.items()
        }
        self.published = 0
        self.troubles: list[Receipt] = []

    async def run(self) -> None:
        async with asyncio.timeout(_BOUND):
            while any(self._left.values()):
                await self.publish_once()

    def has_published(self, count: int) -> bool:
        return self.published >= count

    def has_met_trouble(self, times: int) -> bool:
        return len(self.troubles) >= times

    async def publish_once(self) -> None:
        heads = [(left, left[-1]) for left in self._left.values() if left]
        receipts = await self._publisher.publish([event for _, event in heads])
        for (left, _), receipt in zip(heads, receipts, strict=True):
            if isinstance(receipt, Published):
                left.pop()
                self.published += 1
            else:
                self.troubles.append(receipt)


def lanes_of(keys: int, values: int) -> Lanes:
    return {f"key-{key}": [f"{value:04}" for value in range(values)] for key in range(keys)}


def arrived(broker: KafkaTestServer, topic: str) -> dict[str, list[str]]:
    """What a reader finds, by key."""
    found: dict[str, list[str]] = defaultdict(list)
    for record in records_of(broker.bootstrap_servers, topic):
        found[(record.key or b"").decode()].append((record.value or b"").decode())
    return found


def is_out_of_reach(receipt: Receipt) -> bool:
    return isinstance(receipt, NotPublished) and receipt.outage


async def published(publisher: EventPublisher, *events: Event) -> None:
    """Publish until the broker has them all."""
    async with asyncio.timeout(_BOUND):
        while not all(isinstance(receipt, Published) for receipt in await publisher.publish(events)):
            pass


class TestOutage:
    async def test_order_of_keys_survives_a_broker_that_is_killed_in_the_middle(
        self, broker: KafkaServer
    ) -> None:
        topic, lanes = broker.topic(3), lanes_of(keys=20, values=100)
        async with publisher_of(broker, send_timeout=1.0) as publisher:
            relay = Relay(publisher, topic, lanes)
            relaying = asyncio.create_task(relay.run())
            for killed_after in (300, 900):
                await eventually(partial(relay.has_published, killed_after))
                await asyncio.to_thread(broker.kill)
                await eventually(partial(relay.has_met_trouble, len(relay.troubles) + 1))
                await asyncio.to_thread(broker.start)
            await relaying
        assert all(is_out_of_reach(receipt) for receipt in relay.troubles)
        for key, values in arrived(broker, topic).items():
            assert values == sorted(values), "an event came after a newer one"
            assert sorted(set(values)) == lanes[key]

    async def test_what_was_under_way_when_the_broker_was_killed_is_stored_once(
        self, broker: KafkaServer
    ) -> None:
        topic = broker.topic()
        async with publisher_of(broker, send_timeout=1.0) as publisher:
            await published(publisher, an_event(topic, value="before"))
            broker.kill()
            for _ in range(3):
                assert is_out_of_reach((await publisher.publish([an_event(topic, value="meanwhile")]))[0])
            await asyncio.to_thread(broker.start)
            await published(publisher, an_event(topic, value="meanwhile"))
            await published(publisher, an_event(topic, value="after"))
        assert arrived(broker, topic) == {"key": ["before", "meanwhile", "after"]}

    async def test_what_a_frozen_broker_got_is_stored_once_and_before_what_is_newer(
        self, broker: KafkaServer
    ) -> None:
        topic, keys = broker.topic(3), [f"{number}" for number in range(50)]
        async with publisher_of(broker, send_timeout=1.0) as publisher:
            await published(publisher, *(an_event(topic, key, "1") for key in keys))
            broker.freeze()
            async with asyncio.timeout(_BOUND):
                for _ in range(2):
                    for receipt in await publisher.publish([an_event(topic, key, "2") for key in keys]):
                        assert is_out_of_reach(receipt)
            broker.thaw()
            for value in ("2", "3"):
                await published(publisher, *(an_event(topic, key, value) for key in keys))
        assert arrived(broker, topic) == {key: ["1", "2", "3"] for key in keys}

    async def test_another_event_of_a_key_waits_for_the_one_that_is_under_way(
        self, broker: KafkaServer
    ) -> None:
        topic = broker.topic()
        async with publisher_of(broker, send_timeout=1.0) as publisher:
            await published(publisher, an_event(topic, value="1"))
            broker.freeze()
            for value in ("2", "3"):
                assert is_out_of_reach((await publisher.publish([an_event(topic, value=value)]))[0])
            broker.thaw()
            await published(publisher, an_event(topic, value="4"))
        assert arrived(broker, topic) == {"key": ["1", "2", "4"]}

    async def test_publisher_can_be_made_while_the_broker_is_down(self, broker: KafkaServer) -> None:
        topic = broker.topic()
        broker.stop()
        async with publisher_of(broker) as publisher:
            receipts = await publisher.publish([an_event(topic)])
            assert receipts == [NotPublished(code="CONNECTION_REFUSED", outage=True)]
            await asyncio.to_thread(broker.start)
            await published(publisher, an_event(topic))

    @pytest.mark.parametrize("lost", ["while events are under way", "meanwhile"])
    async def test_publishing_goes_on_when_the_broker_comes_back_with_nothing(
        self, own_kafka: NewKafkaServer, lost: str
    ) -> None:
        broker = own_kafka()
        topic = broker.topic(3)
        events = [[an_event(topic, f"{key}", value) for key in range(20)] for value in ("1", "2", "3")]
        async with publisher_of(broker, send_timeout=1.0) as publisher:
            for value in range(5):
                await published(
                    publisher, *(an_event(topic, f"{key}", f"before {value}") for key in range(20))
                )
            broker.kill()
            broker.lose_state()
            if lost == "while events are under way":
                assert all(is_out_of_reach(receipt) for receipt in await publisher.publish(events[0]))
            await asyncio.to_thread(broker.start)
            await asyncio.to_thread(broker.topic, 3, name=topic)
            for every in events:
                await published(publisher, *every)
        for values in arrived(broker, topic).values():
            assert values == sorted(values)
            assert set(values) == {"1", "2", "3"}
        assert len(arrived(broker, topic)) == 20


class TestRefusal:
    async def test_topic_that_appears_is_published_to(
        self, kafka: KafkaTestServer, broker: KafkaServer
    ) -> None:
        async with publisher_of(broker) as publisher:
            late = an_event("late")
            assert await publisher.publish([late]) == [NotPublished(code="UNKNOWN_TOPIC", outage=False)]
            await asyncio.to_thread(broker.topic, name="late")
            await published(publisher, late)

    async def test_topics_that_the_user_may_not_write_to_refuse_their_own_events_alone(
        self, real_kafka: KafkaServer
    ) -> None:
        permitted, seen, hidden = real_kafka.topic(), real_kafka.topic(), real_kafka.topic()
        real_kafka.permit_writing(permitted)
        real_kafka.permit_describing(seen)
        async with by_name(real_kafka) as publisher:
            await published(publisher, an_event(permitted, value="first"))
            for round in range(2):
                receipts = await publisher.publish(
                    [an_event(topic, value=f"{round}") for topic in (permitted, seen, hidden)]
                )
                assert isinstance(receipts[0], Published)
                assert receipts[1:] == [Unpublishable(code="TOPIC_REFUSED")] * 2
            real_kafka.permit_writing(seen)
            await published(publisher, an_event(seen, value="2"), an_event(permitted, value="2"))
        assert arrived(real_kafka, permitted) == {"key": ["first", "0", "1", "2"]}
        assert arrived(real_kafka, seen) == {"key": ["2"]}
        assert arrived(real_kafka, hidden) == {}

    async def test_message_larger_than_the_publisher_sends_is_unpublishable(
        self, broker: KafkaServer
    ) -> None:
        topic = broker.topic()
        async with publisher_of(broker, max_message_bytes=10_000) as publisher:
            large, small = await publisher.publish([an_event(topic, "1", "x" * 10_000), an_event(topic, "2")])
        assert large == Unpublishable(code="MESSAGE_TOO_LARGE")
        assert isinstance(small, Published)


class TestSecurity:
    @pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
    @pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
    async def test_user_with_the_right_password_publishes(
        self, real_kafka: KafkaServer, protocol: SecurityProtocol, mechanism: SaslMechanism
    ) -> None:
        topic = real_kafka.topic()
        real_kafka.permit_writing(topic)
        async with by_name(real_kafka, protocol, mechanism) as publisher:
            await published(publisher, an_event(topic))

    async def test_trusted_certificate_is_enough_without_a_name(self, real_kafka: KafkaServer) -> None:
        async with by_name(real_kafka, "SSL") as publisher:
            await published(publisher, an_event(real_kafka.topic()))

    @pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
    async def test_wrong_password_is_misconfigured(
        self, real_kafka: KafkaServer, mechanism: SaslMechanism
    ) -> None:
        async with by_name(real_kafka, "SASL_SSL", mechanism, password="wrong-password") as publisher:
            for _ in range(2):
                with pytest.raises(Misconfigured, match="user name or the password") as caught:
                    await publisher.publish([an_event("any")])
                assert caught.value.code == "AUTHENTICATION_FAILED"
                assert_no_secret(caught.value)

    async def test_untrusted_certificate_is_misconfigured(
        self, real_kafka: KafkaServer, tmp_path: Path
    ) -> None:
        stranger = tmp_path / "stranger.pem"
        trustme.CA().cert_pem.write_to_path(stranger)
        async with by_name(real_kafka, ca_file=stranger) as publisher:
            with pytest.raises(Misconfigured, match="certificate") as caught:
                await publisher.publish([an_event("any")])
        assert caught.value.code == "CERTIFICATE_REFUSED"
        assert_no_secret(caught.value)

    async def test_file_of_certificates_without_any_is_misconfigured(
        self, real_kafka: KafkaServer, tmp_path: Path
    ) -> None:
        nonsense = tmp_path / "nonsense.pem"
        nonsense.write_text("nonsense")
        async with by_name(real_kafka, ca_file=nonsense) as publisher:
            with pytest.raises(Misconfigured, match="file of certificates") as caught:
                await publisher.publish([an_event("any")])
        assert caught.value.code == "CA_FILE_UNUSABLE"

    async def test_user_without_any_permission_is_misconfigured(self, own_kafka: NewKafkaServer) -> None:
        broker = own_kafka()
        async with by_name(broker) as publisher:
            with pytest.raises(Misconfigured, match="idempotent producer") as caught:
                await publisher.publish([an_event(broker.topic())])
        assert caught.value.code == "CLUSTER_REFUSED"

    async def test_password_that_was_changed_meanwhile_is_misconfigured(
        self, own_kafka: NewKafkaServer
    ) -> None:
        broker = own_kafka()
        topic = broker.topic()
        broker.permit_writing(topic)
        security = KafkaSecurity(
            bootstrap_servers=broker.address("SASL_PLAINTEXT"),
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN",
            sasl_username=USER,
            sasl_password=PASSWORD,
        )
        async with KafkaEventPublisher(security, send_timeout=1.0) as publisher:
            await published(publisher, an_event(topic))
            broker.stop()
            broker.settings["listener.name.sasl_plaintext.plain.sasl.jaas.config"] = (
                f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="another";'
            )
            await asyncio.to_thread(broker.start)
            assert is_out_of_reach((await publisher.publish([an_event(topic)]))[0])
            with pytest.raises(Misconfigured, match="user name or the password"):
                await publisher.publish([an_event(topic)])

    def test_password_is_not_shown(self) -> None:
        security = KafkaSecurity(bootstrap_servers="kafka:9092", sasl_username=USER, sasl_password=PASSWORD)
        assert PASSWORD not in repr(security)


class TestEnd:
    @pytest.mark.parametrize("how", ["freeze", "kill"])
    async def test_close_is_over_within_its_bound_whatever_the_broker_does(
        self, broker: KafkaServer, how: str
    ) -> None:
        topic = broker.topic(3)
        others = asyncio.all_tasks()
        async with asyncio.timeout(_BOUND):
            publisher = publisher_of(broker, send_timeout=1.0, stop_timeout=0.2)
            await published(publisher, an_event(topic))
            getattr(broker, how)()
            large = [an_event(topic, f"{number}", "x" * 100_000) for number in range(50)]
            assert all(is_out_of_reach(receipt) for receipt in await publisher.publish(large))
            await publisher.close()
            await publisher.close()
        assert_nothing_left(broker, others)
        with pytest.raises(RuntimeError, match="closed"):
            await publisher.publish([an_event(topic)])

    async def test_close_waits_for_what_is_under_way(self, broker: KafkaServer) -> None:
        topic = broker.topic()
        publisher = publisher_of(broker, send_timeout=0.5, stop_timeout=_BOUND)
        await published(publisher, an_event(topic, value="1"))
        broker.kill()
        assert is_out_of_reach((await publisher.publish([an_event(topic, value="2")]))[0])
        closing = asyncio.create_task(publisher.close())
        await asyncio.to_thread(broker.start)
        await closing
        assert arrived(broker, topic) == {"key": ["1", "2"]}

    async def test_close_frees_a_publish_that_waits_for_the_broker(self, broker: KafkaServer) -> None:
        topic = broker.topic()
        publisher = publisher_of(broker, send_timeout=_BOUND, stop_timeout=0.2)
        await published(publisher, an_event(topic))
        broker.freeze()
        publishing = asyncio.create_task(publisher.publish([an_event(topic)]))
        await asyncio.sleep(0)
        async with asyncio.timeout(_BOUND / 2):
            await publisher.close()
            assert is_out_of_reach((await publishing)[0])

    async def test_cancellation_at_any_moment_leaves_nothing_behind(self, broker: KafkaServer) -> None:
        topic, others, turns = broker.topic(3), asyncio.all_tasks(), 0
        events = [an_event(topic, f"{number}") for number in range(10)]
        while await self._is_cancelled_after(turns, publisher_of(broker, send_timeout=_BOUND), events):
            assert_nothing_left(broker, others)
            turns += 1 + turns // 8
        assert_nothing_left(broker, others)

    async def _is_cancelled_after(
        self, turns: int, publisher: KafkaEventPublisher, events: Sequence[Event]
    ) -> bool:
        """Whether it could be, or was done before."""
        async with publisher:
            publishing = asyncio.create_task(publisher.publish(events))
            for _ in range(turns):
                await asyncio.sleep(0)
            if publishing.cancel():
                with pytest.raises(asyncio.CancelledError):
                    await publishing
                return True
            assert all(isinstance(receipt, Published) for receipt in publishing.result())
            return False

    async def test_cancelled_while_the_broker_is_frozen_it_leaves_nothing_behind(
        self, broker: KafkaServer
    ) -> None:
        topic, others = broker.topic(3), asyncio.all_tasks()
        for started in (False, True):
            async with publisher_of(broker, send_timeout=_BOUND, stop_timeout=0.1) as publisher:
                if started:
                    await published(publisher, an_event(topic))
                broker.freeze()
                publishing = asyncio.create_task(publisher.publish([an_event(topic)]))
                done, _ = await asyncio.wait([publishing], timeout=0.2)
                assert not done
                publishing.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await publishing
            assert_nothing_left(broker, others)
            broker.thaw()


def assert_no_secret(error: Misconfigured) -> None:
    for secret in (USER, PASSWORD, "wrong-password", "127.0.0.1"):
        assert secret not in str(error)
        assert secret not in error.code


def assert_nothing_left(broker: KafkaServer, others: set[asyncio.Task[Any]]) -> None:
    gc.collect()  # what is forgotten instead of closed complains, which is an error here
    assert asyncio.all_tasks() == others
    assert connections_to(broker) == 0


def connections_to(broker: KafkaServer) -> int:
    """How many this machine's clients hold open; always 0 where the system does not say."""
    table = Path("/proc/net/tcp")
    if not table.exists():
        return 0
    port = int(broker.bootstrap_servers.rpartition(":")[2])
    rows = [line.split() for line in table.read_text().splitlines()[1:]]
    # The address they lead to; established, or closed by the broker alone.
    return sum(row[2].endswith(f":{port:04X}") and row[3] in ("01", "08") for row in rows)
