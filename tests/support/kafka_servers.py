"""Fixtures: the Kafka that tests run on, best first, and brokers of a test's own.

1. the brokers of ``MESSENGER_TEST_KAFKA``, as in ``host:9092``, without encryption or names;
2. a container, when a Docker engine answers;
3. a real Apache Kafka, whose jars Maven brings (once), when Java and Maven are here;
4. librdkafka's mock cluster, which is not much of a Kafka: no broker to kill, no limits, one consumer per group, four
   partitions in every topic whatever is asked. Tests marked ``real_kafka`` do not run on it.

``kafka``      for ordinary tests: ``kafka.bootstrap_servers``, and ``kafka.topic(partitions)`` makes a topic of an
               unused name and returns the name (about 50 ms)
``own_kafka``  ``own_kafka()`` starts a broker of the test's own (about 2 s): ``kill()``, ``stop()``, ``freeze()``,
               ``thaw()``, ``lose_state()``, ``start()`` again with the same address and data; and everything that
               ``kafka`` has. ``own_kafka({"message.max.bytes": "1000"})`` gives it other settings.
``shared_kafka`` the same, one for a whole module, that runs when a test begins, with whatever earlier tests left in it
``real_kafka`` like ``kafka``, but always a local `KafkaServer`, which has other listeners beside the open one:
               ``address("SASL_SSL")``, ``ca_file``, ``permit_writing(topic)`` for `USER` with `PASSWORD`

A test that needs more than the mock cluster has gives says so: ``@pytest.mark.real_kafka``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Protocol

import pytest
from attrs import frozen

from tests.support.docker_engine import docker_answers
from tests.support.kafka_admin import create_topic
from tests.support.kafka_programs import (
    MISSING,
    KafkaPrograms,
    KafkaProgramsError,
    kafka_programs,
    kafka_programs_expected,
)
from tests.support.kafka_server import KafkaServer, format_storage
from tests.support.missing_server import missing_server

ADDRESS_VARIABLE: Final = "MESSENGER_TEST_KAFKA"

_NONE_HERE: Final = f"no real Kafka here: set {ADDRESS_VARIABLE}, start Docker, or {MISSING}"


class KafkaTestServer(Protocol):
    """A Kafka for ordinary tests."""

    @property
    def bootstrap_servers(self) -> str: ...

    def topic(self, partitions: int = 1, settings: Mapping[str, str] | None = None) -> str: ...


NewKafkaServer = Callable[..., KafkaServer]
KafkaTemplate = tuple[KafkaPrograms, Path]


@frozen
class OutsideKafka:
    bootstrap_servers: str

    def topic(self, partitions: int = 1, settings: Mapping[str, str] | None = None) -> str:
        return create_topic(self.bootstrap_servers, partitions, settings)


def _choice() -> str:
    if ADDRESS_VARIABLE in os.environ:
        return "environment"
    if docker_answers():
        return "container"
    return "local" if kafka_programs_expected() else "mock"


_CHOICE: Final = _choice()


def pytest_report_header() -> str:
    labels = {"local": kafka_programs_expected(), "mock": "librdkafka's mock cluster"}
    return f"Kafka: {labels.get(_CHOICE, _CHOICE)}"


def pytest_runtest_setup(item: pytest.Item) -> None:
    if _CHOICE == "mock" and item.get_closest_marker("real_kafka"):
        missing_server(_NONE_HERE)


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest) -> Iterator[KafkaTestServer]:
    match _CHOICE:
        case "environment":
            yield OutsideKafka(os.environ[ADDRESS_VARIABLE])
        case "container":
            with _container() as server:
                yield server
        case "local":
            yield request.getfixturevalue("real_kafka")
        case _:
            from tests.support.kafka_mock import MockKafka

            with MockKafka() as mock:
                yield mock


@pytest.fixture(scope="session")
def real_kafka(kafka_template: KafkaTemplate) -> Iterator[KafkaServer]:
    with running_kafka(kafka_template) as server:
        yield server


@pytest.fixture(scope="module")
def module_kafka(kafka_template: KafkaTemplate) -> Iterator[KafkaServer]:
    with running_kafka(kafka_template) as server:
        yield server


@pytest.fixture
def shared_kafka(module_kafka: KafkaServer) -> KafkaServer:
    if module_kafka.running:
        module_kafka.thaw()
    module_kafka.start()
    return module_kafka


@pytest.fixture
def own_kafka(kafka_template: KafkaTemplate) -> Iterator[NewKafkaServer]:
    with ExitStack() as servers:

        def new_server(settings: Mapping[str, str] | None = None) -> KafkaServer:
            return servers.enter_context(running_kafka(kafka_template, settings))

        yield new_server


@contextmanager
def running_kafka(
    template: KafkaTemplate, settings: Mapping[str, str] | None = None
) -> Iterator[KafkaServer]:
    with _folder() as folder, KafkaServer(folder, *template, settings) as server:
        yield server


@pytest.fixture(scope="session")
def kafka_template() -> Iterator[KafkaTemplate]:
    """The programs of a local Kafka, and a folder for its first start, to be copied: sooner done than formatted."""
    try:
        programs = kafka_programs()
    except KafkaProgramsError as problem:
        missing_server(f"no local Kafka here: {problem}")
    with _folder() as folder:
        yield programs, format_storage(programs, folder)


@contextmanager
def _folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="messenger-test-kafka-") as folder:
        yield Path(folder)


@contextmanager
def _container() -> Iterator[OutsideKafka]:
    from testcontainers.community.kafka import KafkaContainer

    with KafkaContainer().with_kraft() as container:
        yield OutsideKafka(container.get_bootstrap_server())
