"""What an administrator of a Kafka does: topics, permissions."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final
from uuid import uuid4

# The package's own modules: confluent_kafka.admin does not export these for type checkers.
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.cimpl import NewTopic

_TIMEOUT: Final = 30.0  # seconds
_POLL: Final = 0.005


def answers(bootstrap_servers: str) -> bool:
    """Whether a broker serves its clients."""
    try:
        return bool(_admin(bootstrap_servers).list_topics(timeout=5).brokers)
    except KafkaException:
        return False


def create_topic(
    bootstrap_servers: str,
    partitions: int,
    settings: Mapping[str, str] | None = None,
    name: str | None = None,
) -> str:
    """The name of a new topic, of which every partition has a leader."""
    name = name or f"messenger-test-{uuid4().hex}"
    admin = _admin(bootstrap_servers)
    topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(settings or {}))
    admin.create_topics([topic], operation_timeout=_TIMEOUT)[name].result(_TIMEOUT)
    deadline = time.monotonic() + _TIMEOUT
    while not _has_leaders(admin, name, partitions):
        assert time.monotonic() < deadline, f"the topic got no leaders within {_TIMEOUT:g} s"
        time.sleep(_POLL)
    return name


def permit_writing(bootstrap_servers: str, topic: str, principal: str) -> None:
    """Let somebody see this topic and write to it."""
    _permit(bootstrap_servers, topic, principal, AclOperation.WRITE)


def permit_describing(bootstrap_servers: str, topic: str, principal: str) -> None:
    """Let somebody see this topic."""
    _permit(bootstrap_servers, topic, principal, AclOperation.DESCRIBE)


def _permit(bootstrap_servers: str, topic: str, principal: str, operation: AclOperation) -> None:
    anywhere, literally = "*", ResourcePatternType.LITERAL
    binding = AclBinding(
        ResourceType.TOPIC, topic, literally, principal, anywhere, operation, AclPermissionType.ALLOW
    )
    admin = _admin(bootstrap_servers)  # which has to outlive its requests
    admin.create_acls([binding])[binding].result(_TIMEOUT)


def _has_leaders(admin: AdminClient, topic: str, partitions: int) -> bool:
    metadata = admin.list_topics(topic, timeout=_TIMEOUT).topics[topic]
    return len(metadata.partitions) == partitions and all(
        partition.leader >= 0 for partition in metadata.partitions.values()
    )


def _admin(bootstrap_servers: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
