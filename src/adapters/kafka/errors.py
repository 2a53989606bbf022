"""What every failure of aiokafka, and every refusal of a broker, means.

Nothing that a broker says becomes part of a code or a sentence: they are stored, logged and counted.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from typing import Final, TypeVar

import aiokafka.errors as kafka_errors  # type: ignore[import-untyped]  # ships no types
from attrs import frozen

from ...application.ports.errors import Misconfigured
from ...application.ports.event_publisher import NotPublished, Unpublishable

_T = TypeVar("_T")

TIMED_OUT: Final = "TIMED_OUT"
UNKNOWN_TOPIC: Final = "UNKNOWN_TOPIC"
TOPIC_REFUSED: Final = "TOPIC_REFUSED"
TOO_LARGE: Final = "MESSAGE_TOO_LARGE"


@frozen
class SequenceLost:
    """The broker and this producer do not agree any more on what came before: nothing goes on but a new producer.

    The event was not stored.
    """

    code: str


Failure = Unpublishable | NotPublished | SequenceLost | Misconfigured

_UNPUBLISHABLE: Final[Mapping[type[Exception], str]] = {
    kafka_errors.MessageSizeTooLargeError: TOO_LARGE,
    kafka_errors.RecordListTooLargeError: TOO_LARGE,
    kafka_errors.RecordTooLargeError: TOO_LARGE,
    kafka_errors.TopicAuthorizationFailedError: TOPIC_REFUSED,
    kafka_errors.InvalidTopicError: "INVALID_TOPIC",
    kafka_errors.InvalidTimestampError: "INVALID_TIMESTAMP",
    kafka_errors.PolicyViolationError: "POLICY_VIOLATION",
}
_SEQUENCE_LOST: Final[Mapping[type[Exception], str]] = {
    kafka_errors.OutOfOrderSequenceNumber: "OUT_OF_ORDER_SEQUENCE",
    kafka_errors.UnknownProducerId: "UNKNOWN_PRODUCER",
    kafka_errors.InvalidProducerEpoch: "PRODUCER_FENCED",
    kafka_errors.ProducerFenced: "PRODUCER_FENCED",
    kafka_errors.InvalidProducerIdMapping: "UNKNOWN_PRODUCER",
    kafka_errors.ProducerClosed: "PRODUCER_CLOSED",
}
_OF_ONE_TOPIC: Final[Mapping[type[Exception], str]] = {
    kafka_errors.UnknownTopicOrPartitionError: UNKNOWN_TOPIC,
    kafka_errors.LeaderNotAvailableError: "NO_LEADER",
    kafka_errors.NotLeaderForPartitionError: "NO_LEADER",
    kafka_errors.NotEnoughReplicasError: "NOT_ENOUGH_REPLICAS",
    kafka_errors.NotEnoughReplicasAfterAppendError: "NOT_ENOUGH_REPLICAS",
    kafka_errors.KafkaStorageError: "STORAGE_FAILED",
    kafka_errors.KafkaTimeoutError: TIMED_OUT,
}
_OUT_OF_REACH: Final[Mapping[type[Exception], str]] = {
    ConnectionRefusedError: "CONNECTION_REFUSED",
    TimeoutError: TIMED_OUT,
    kafka_errors.RequestTimedOutError: TIMED_OUT,
    kafka_errors.NoBrokersAvailable: "NO_BROKERS",
    kafka_errors.KafkaConnectionError: "CONNECTION_LOST",
    kafka_errors.NodeNotReadyError: "CONNECTION_LOST",
    OSError: "HOST_UNREACHABLE",
}
_MISCONFIGURED: Final[Mapping[type[Exception], tuple[str, str]]] = {
    kafka_errors.SaslAuthenticationFailed: (
        "AUTHENTICATION_FAILED",
        "Kafka refuses the user name or the password",
    ),
    kafka_errors.AuthenticationFailedError: (
        "AUTHENTICATION_FAILED",
        "Kafka refuses the user name or the password",
    ),
    kafka_errors.UnsupportedSaslMechanismError: (
        "SASL_MECHANISM_REFUSED",
        "Kafka does not accept this SASL mechanism",
    ),
    kafka_errors.IllegalSaslStateError: (
        "SASL_NOT_EXPECTED",
        "Kafka does not ask for a name at this address: the security protocol is another one",
    ),
    kafka_errors.ClusterAuthorizationFailedError: (
        "CLUSTER_REFUSED",
        "Kafka does not let this user write with an idempotent producer",
    ),
    kafka_errors.GroupAuthorizationFailedError: (
        "GROUP_REFUSED",
        "Kafka does not let this user read as a member of this consumer group",
    ),
    kafka_errors.UnsupportedVersionError: ("BROKER_TOO_OLD", "this version of Kafka is not supported"),
    kafka_errors.IncompatibleBrokerVersion: ("BROKER_TOO_OLD", "this version of Kafka is not supported"),
    ssl.SSLCertVerificationError: (
        "CERTIFICATE_REFUSED",
        "Kafka's certificate is out of date, of another host, or signed by an authority that is not trusted",
    ),
}


def failure_of(error: BaseException) -> Failure:
    """What it means for the event, or for the connection, that met it."""
    if (misconfigured := misconfiguration_in(error)) is not None:
        return misconfigured
    if code := _listed(error, _UNPUBLISHABLE):
        return Unpublishable(code=code)
    if code := _listed(error, _SEQUENCE_LOST):
        return SequenceLost(code)
    if code := _listed(error, _OF_ONE_TOPIC):
        return NotPublished(code=code, outage=False)
    if code := _listed(error, _OUT_OF_REACH):
        return NotPublished(code=code, outage=True)
    return NotPublished(code="REFUSED", outage=False)


def misconfiguration_in(error: BaseException) -> Misconfigured | None:
    """The error to raise when a person must set something up before a connection can be had, else None."""
    code, sentence = _listed(error, _MISCONFIGURED) or (None, "")
    if code is None and isinstance(error, socket.gaierror):
        if error.errno in (socket.EAI_NONAME, socket.EAI_NODATA):
            code, sentence = "NO_SUCH_HOST", "no host has the name that is set for Kafka"
    elif code is None and isinstance(error, ssl.SSLError) and not _ended(error):
        code, sentence = (
            "TLS_FAILED",
            "Kafka and this client cannot agree on TLS; perhaps that address has none",
        )
    if code is None:
        return None
    misconfigured = Misconfigured(code, sentence)
    misconfigured.__cause__ = error
    return misconfigured


def _ended(error: ssl.SSLError) -> bool:
    return isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError))


def _listed(error: BaseException, table: Mapping[type[Exception], _T]) -> _T | None:
    """The entry of the error's class, or else of the closest class above it."""
    return next((table[above] for above in type(error).__mro__ if above in table), None)
