"""Whether the brokers can be reached and have the topics."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import aiokafka.errors as kafka_errors  # type: ignore[import-untyped]  # ships no types
from aiokafka.conn import (  # type: ignore[import-untyped]  # ships no types
    collect_hosts,
    create_conn,
)
from aiokafka.protocol.metadata import MetadataRequest  # type: ignore[import-untyped]  # ships no types
from attrs import frozen

from ...application.ports.check import CheckedItem, failed, ok, skipped
from ...application.ports.errors import Misconfigured, PortError
from ...application.ports.event_publisher import NotPublished
from .errors import TIMED_OUT, failure_of
from .security import KafkaSecurity

KAFKA: Final = "kafka"
TOPICS: Final = "topics"

_GOOD_BYE: Final = 1.0  # seconds
_TIMEOUT: Final = 5.0  # seconds, for each of the bootstrap servers
_OUTAGES: Final[Mapping[str, str]] = {
    "CONNECTION_REFUSED": "no broker accepts connections there",
    "CONNECTION_LOST": "the broker ended the connection; MESSENGER_KAFKA_SECURITY_PROTOCOL says how it is spoken to",
    "HOST_UNREACHABLE": "no broker can be reached",
    "NO_BROKERS": "what answers there knows no broker",
    TIMED_OUT: "no broker answered in time",
}


@frozen(kw_only=True)
class KafkaCheck:
    """See `Check`: asks the bootstrap servers, one after another, for ``topics``; creates none of them."""

    security: KafkaSecurity
    topics: Sequence[str]

    async def __call__(self) -> Sequence[CheckedItem]:
        """See `Check`."""
        try:
            errors = await self._ask()
        except Misconfigured as error:
            return self._unusable(_at_fault(error.code) + str(error), error.code)
        except (OSError, kafka_errors.KafkaError) as error:
            failure = failure_of(error)
            if isinstance(failure, PortError):
                return self._unusable(_at_fault(failure.code) + str(failure), failure.code)
            code = failure.code if isinstance(failure, NotPublished) else type(error).__name__
            sentence = _OUTAGES.get(code, "the brokers answered with an error")
            return self._unusable(f"MESSENGER_KAFKA_BOOTSTRAP_SERVERS: {sentence}", code)
        return [ok(KAFKA, "the brokers can be reached, and know this client"), self._topics(errors)]

    def _unusable(self, sentence: str, code: str) -> Sequence[CheckedItem]:
        return [failed(KAFKA, sentence, code), skipped(TOPICS, "the brokers could not be asked")]

    def _topics(self, errors: Mapping[str, int]) -> CheckedItem:
        refused = [topic for topic in self.topics if errors.get(topic) in _REFUSED]
        if refused:
            return failed(TOPICS, f"this user may not see {', '.join(refused)}", "TOPIC_REFUSED")
        missing = [topic for topic in self.topics if errors.get(topic, _UNKNOWN) in _NOT_THERE]
        if missing:
            return failed(TOPICS, f"these topics do not exist: {', '.join(missing)}", "UNKNOWN_TOPIC")
        return ok(TOPICS, f"all {len(self.topics)} topics exist")

    async def _ask(self) -> Mapping[str, int]:
        """The error codes of the topics, as the first broker that answers says them; 0 stands for none."""
        arguments = self.security.connection_arguments()
        reason: Exception | None = None
        for host, port, _ in collect_hosts(self.security.bootstrap_servers):
            try:
                async with asyncio.timeout(_TIMEOUT):
                    return await self._ask_one(host, port, arguments)
            except (OSError, kafka_errors.KafkaError) as error:
                reason = reason or error
        raise reason or kafka_errors.NoBrokersAvailable()

    async def _ask_one(self, host: str, port: int, arguments: Mapping[str, Any]) -> Mapping[str, int]:
        connection = await create_conn(
            host,
            port,
            client_id="pin-messenger-jobs check",
            request_timeout_ms=round(_TIMEOUT * 1000),
            **arguments,
        )
        try:
            answer = await connection.send(MetadataRequest([*self.topics], allow_auto_topic_creation=False))
        finally:
            await _close(connection)
        if answer is None or not answer.brokers:
            raise kafka_errors.NoBrokersAvailable
        return {topic["topic"]: topic["error_code"] for topic in answer.to_object()["topics"]}


async def _close(connection: Any) -> None:
    """The library closes without waiting, and here the event loop may end at once, before TLS has said good-bye."""
    writer = connection._writer
    connection.close()
    if writer is not None:  # the broker has not closed it first
        with suppress(OSError):  # a time-out, too: then it is closed nevertheless
            async with asyncio.timeout(_GOOD_BYE):
                await writer.wait_closed()


_REFUSED: Final = frozenset({kafka_errors.TopicAuthorizationFailedError.errno})
_UNKNOWN: Final[int] = kafka_errors.UnknownTopicOrPartitionError.errno
_NOT_THERE: Final = frozenset({_UNKNOWN, kafka_errors.InvalidTopicError.errno})


def _at_fault(code: str) -> str:
    """The setting that a person looks at first."""
    return {
        "CA_FILE_UNUSABLE": "MESSENGER_KAFKA_SSL_CAFILE: ",
        "CERTIFICATE_REFUSED": "MESSENGER_KAFKA_SSL_CAFILE: ",
        "AUTHENTICATION_FAILED": "MESSENGER_KAFKA_SASL_PASSWORD: ",
        "SASL_MECHANISM_REFUSED": "MESSENGER_KAFKA_SASL_MECHANISM: ",
        "SASL_NOT_EXPECTED": "MESSENGER_KAFKA_SECURITY_PROTOCOL: ",
        "TLS_FAILED": "MESSENGER_KAFKA_SECURITY_PROTOCOL: ",
    }.get(code, "MESSENGER_KAFKA_BOOTSTRAP_SERVERS: ")
