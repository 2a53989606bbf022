"""What is told of brokers that cannot be used, on a real Kafka."""

from __future__ import annotations

import asyncio
import socket
from typing import Any
from uuid import uuid4

import pytest
from messenger_jobs.adapters.kafka.check import KafkaCheck
from messenger_jobs.adapters.kafka.security import KafkaSecurity
from messenger_jobs.application.ports.check import CheckedItem, Verdict

from tests.support.kafka_server import PASSWORD, USER, KafkaServer
from tests.support.kafka_servers import KafkaTestServer, NewKafkaServer

pytestmark = pytest.mark.real_kafka


def checked(*topics: str, **security: Any) -> tuple[CheckedItem, CheckedItem]:
    kafka, existing = asyncio.run(KafkaCheck(security=KafkaSecurity(**security), topics=topics)())
    for item in (kafka, existing):
        assert PASSWORD not in item.sentence
        assert security["bootstrap_servers"] not in item.sentence
    assert (kafka.item, existing.item) == ("kafka", "topics")
    return kafka, existing


def assert_unusable(items: tuple[CheckedItem, CheckedItem], code: str, setting: str) -> None:
    kafka, topics = items
    assert (kafka.verdict, kafka.code) == (Verdict.FAILED, code)
    assert kafka.sentence.startswith(f"{setting}: ")
    assert topics.verdict is Verdict.SKIPPED


def test_brokers_with_all_topics_pass(kafka: KafkaTestServer) -> None:
    items = checked(kafka.topic(), kafka.topic(3), bootstrap_servers=kafka.bootstrap_servers)

    assert [item.verdict for item in items] == [Verdict.OK, Verdict.OK]


def test_missing_topics_are_named_and_not_made(own_kafka: NewKafkaServer) -> None:
    kafka = own_kafka({"auto.create.topics.enable": "true"})
    missing = f"nobody-made-this-{uuid4().hex}"
    there = kafka.topic()
    for _ in range(2):
        brokers, topics = checked(there, missing, bootstrap_servers=kafka.bootstrap_servers)

        assert brokers.verdict is Verdict.OK
        assert (topics.verdict, topics.code) == (Verdict.FAILED, "UNKNOWN_TOPIC")
        assert topics.sentence == f"these topics do not exist: {missing}"
        kafka.topic()  # when this one is made, whatever was asked for before is made as well


def test_broker_that_is_down_is_told() -> None:
    with socket.socket() as taken:  # bound and not listening
        taken.bind(("127.0.0.1", 0))
        items = checked("any", bootstrap_servers=f"127.0.0.1:{taken.getsockname()[1]}")

    assert_unusable(items, "CONNECTION_REFUSED", "MESSENGER_KAFKA_BOOTSTRAP_SERVERS")


def test_second_address_serves_when_the_first_does_not(kafka: KafkaTestServer) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        both = f"127.0.0.1:{taken.getsockname()[1]},{kafka.bootstrap_servers}"
        items = checked(kafka.topic(), bootstrap_servers=both)

    assert [item.verdict for item in items] == [Verdict.OK, Verdict.OK]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_wrong_password_is_told(real_kafka: KafkaServer, mechanism: str) -> None:
    items = checked(
        "any",
        bootstrap_servers=real_kafka.address("SASL_PLAINTEXT"),
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=mechanism,
        sasl_username=USER,
        sasl_password="wr0ng",
    )

    assert_unusable(items, "AUTHENTICATION_FAILED", "MESSENGER_KAFKA_SASL_PASSWORD")


def test_topic_that_this_user_may_not_see_is_told(real_kafka: KafkaServer) -> None:
    permitted, other = real_kafka.topic(), real_kafka.topic()
    real_kafka.permit_describing(permitted)
    security = {
        "bootstrap_servers": real_kafka.address("SASL_SSL"),
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "sasl_username": USER,
        "sasl_password": PASSWORD,
        "ca_file": real_kafka.ca_file,
    }

    brokers, topics = checked(permitted, **security)
    assert (brokers.verdict, topics.verdict) == (Verdict.OK, Verdict.OK)

    _, topics = checked(permitted, other, **security)
    assert (topics.verdict, topics.code) == (Verdict.FAILED, "TOPIC_REFUSED")
    assert topics.sentence == f"this user may not see {other}"


def test_certificate_that_is_not_trusted_is_told(real_kafka: KafkaServer) -> None:
    items = checked(
        "any",
        bootstrap_servers=real_kafka.address("SASL_SSL"),
        security_protocol="SASL_SSL",
        sasl_mechanism="PLAIN",
        sasl_username=USER,
        sasl_password=PASSWORD,
    )

    assert_unusable(items, "CERTIFICATE_REFUSED", "MESSENGER_KAFKA_SSL_CAFILE")


def test_listener_without_tls_is_told(real_kafka: KafkaServer) -> None:
    items = checked(
        "any",
        bootstrap_servers=real_kafka.bootstrap_servers,
        security_protocol="SSL",
        ca_file=real_kafka.ca_file,
    )

    kafka, topics = items
    assert (kafka.verdict, topics.verdict) == (Verdict.FAILED, Verdict.SKIPPED)
