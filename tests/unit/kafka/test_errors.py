"""What aiokafka's errors mean."""

from __future__ import annotations

import socket
import ssl

import aiokafka.errors as kafka_errors  # type: ignore[import-untyped]  # ships no types
import pytest
from messenger_jobs.adapters.kafka.errors import SequenceLost, failure_of
from messenger_jobs.application.ports.errors import Misconfigured
from messenger_jobs.application.ports.event_publisher import NotPublished, Unpublishable


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (kafka_errors.MessageSizeTooLargeError(), "MESSAGE_TOO_LARGE"),
        (kafka_errors.RecordListTooLargeError(), "MESSAGE_TOO_LARGE"),
        (kafka_errors.TopicAuthorizationFailedError("topic"), "TOPIC_REFUSED"),
        (kafka_errors.InvalidTopicError(), "INVALID_TOPIC"),
    ],
)
def test_some_events_can_never_be_sent(error: Exception, code: str) -> None:
    assert failure_of(error) == Unpublishable(code=code)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (kafka_errors.OutOfOrderSequenceNumber(), "OUT_OF_ORDER_SEQUENCE"),
        (kafka_errors.UnknownProducerId(), "UNKNOWN_PRODUCER"),
        (kafka_errors.ProducerFenced(), "PRODUCER_FENCED"),
        (kafka_errors.ProducerClosed(), "PRODUCER_CLOSED"),
    ],
)
def test_some_producers_cannot_go_on(error: Exception, code: str) -> None:
    assert failure_of(error) == SequenceLost(code)


@pytest.mark.parametrize(
    ("error", "code", "outage"),
    [
        (ConnectionRefusedError(), "CONNECTION_REFUSED", True),
        (ConnectionResetError(), "HOST_UNREACHABLE", True),
        (TimeoutError(), "TIMED_OUT", True),
        (ssl.SSLEOFError(), "HOST_UNREACHABLE", True),
        (socket.gaierror(socket.EAI_AGAIN, "again"), "HOST_UNREACHABLE", True),
        (kafka_errors.KafkaConnectionError(), "CONNECTION_LOST", True),
        (kafka_errors.NodeNotReadyError(), "CONNECTION_LOST", True),
        (kafka_errors.NotEnoughReplicasError(), "NOT_ENOUGH_REPLICAS", False),
        (kafka_errors.NotLeaderForPartitionError(), "NO_LEADER", False),
        (kafka_errors.UnknownTopicOrPartitionError(), "UNKNOWN_TOPIC", False),
        (kafka_errors.UnknownError(), "REFUSED", False),
    ],
)
def test_some_events_may_be_sent_later(error: Exception, code: str, outage: bool) -> None:
    assert failure_of(error) == NotPublished(code=code, outage=outage)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (kafka_errors.SaslAuthenticationFailed("user messenger-7"), "AUTHENTICATION_FAILED"),
        (kafka_errors.UnsupportedSaslMechanismError("messenger-7"), "SASL_MECHANISM_REFUSED"),
        (kafka_errors.ClusterAuthorizationFailedError(), "CLUSTER_REFUSED"),
        (kafka_errors.IncompatibleBrokerVersion(), "BROKER_TOO_OLD"),
        (ssl.SSLCertVerificationError("messenger-7"), "CERTIFICATE_REFUSED"),
        (ssl.SSLError("messenger-7"), "TLS_FAILED"),
        (socket.gaierror(socket.EAI_NONAME, "messenger-7"), "NO_SUCH_HOST"),
    ],
)
def test_some_things_must_be_set_up_by_a_person_and_the_sentence_quotes_nobody(
    error: Exception, code: str
) -> None:
    failure = failure_of(error)
    assert isinstance(failure, Misconfigured)
    assert failure.code == code
    assert "messenger-7" not in str(failure)
    assert failure.__cause__ is error
