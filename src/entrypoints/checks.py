"""What ``check`` looks at with given settings."""

from __future__ import annotations

from collections.abc import Sequence

from ..adapters.postgres.database_check import DatabaseCheck
from ..adapters.postgres.lock_session_check import LockSessionCheck
from ..adapters.s3.check import STORAGE, StorageCheck
from ..application.integration_events import CALL_RECORDING_AVAILABLE_TOPIC, DEAL_CHAT_STATUS_CHANGED_TOPIC
from ..application.ports.check import Check, SkippedCheck
from ..application.ports.recording_storage import RecordingStorage
from .messaging import kafka_security
from .settings import Settings, variable


def checks_of(settings: Settings, storage: RecordingStorage | None) -> Sequence[Check]:
    """The database, the lock's session, storage where recordings are enabled, and Kafka where it is set."""
    lock_setting = "database_url" if settings.lock_database_url is None else "lock_database_url"
    return (
        DatabaseCheck(
            database_url=settings.database_url,
            setting=variable("database_url"),
            recordings=settings.recordings_enabled,
        ),
        LockSessionCheck(
            lock_url=settings.lock_url, setting=variable(lock_setting), remedy=variable("lock_database_url")
        ),
        _storage_check(storage),
        _kafka_check(settings),
    )


def _storage_check(storage: RecordingStorage | None) -> Check:
    if storage is None:
        return SkippedCheck(STORAGE, f"{variable('recordings_enabled')} is not true")
    return StorageCheck(storage)


def _kafka_check(settings: Settings) -> Check:
    security = kafka_security(settings)
    if security is None:
        return SkippedCheck("kafka", f"{variable('kafka_bootstrap_servers')} is not set")
    from ..adapters.kafka.check import KafkaCheck  # noqa: PLC0415 - takes long to import
    from ..adapters.kafka.deal_created_dead_letter import (  # noqa: PLC0415
        DEAL_CREATED_TOPIC,
        dead_letter_topic,
    )

    return KafkaCheck(
        security=security,
        topics=(
            DEAL_CREATED_TOPIC,
            dead_letter_topic(DEAL_CREATED_TOPIC),
            DEAL_CHAT_STATUS_CHANGED_TOPIC,
            CALL_RECORDING_AVAILABLE_TOPIC,
        ),
    )
