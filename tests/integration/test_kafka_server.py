"""The brokers that tests start are real ones, and gone when the tests are."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.support.eventually import eventually_here
from tests.support.kafka_log import records_of
from tests.support.kafka_server import KafkaServer
from tests.support.kafka_servers import KafkaTemplate, NewKafkaServer

# What a test run does: it starts a broker, says who it is, and goes on.
_OWNER = """
import sys
from pathlib import Path
from tests.support.kafka_programs import kafka_programs
from tests.support.kafka_server import KafkaServer

server = KafkaServer(Path(sys.argv[1]), kafka_programs(), Path(sys.argv[2]))
server.start()
print(server.pid, flush=True)
sys.stdin.read()
"""


def stored(server: KafkaServer, topic: str) -> list[bytes | None]:
    return [record.value for record in records_of(server.bootstrap_servers, topic)]


def produce(server: KafkaServer, topic: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": server.bootstrap_servers, "log_level": 0})
    producer.produce(topic, value)
    assert producer.flush(60) == 0


@pytest.mark.parametrize("ended", ["stopped", "killed", "frozen and killed"])
def test_broker_that_is_started_again_has_its_data_at_the_same_address(
    shared_kafka: KafkaServer, ended: str
) -> None:
    server = shared_kafka
    address, topic = server.bootstrap_servers, server.topic()
    produce(server, topic, b"before")
    if ended == "stopped":
        server.stop()
    else:
        if ended == "frozen and killed":
            server.freeze()
        server.kill()
    assert not server.running
    server.start()
    produce(server, topic, b"after")
    assert server.bootstrap_servers == address
    assert stored(server, topic) == [b"before", b"after"]


def test_broker_that_lost_its_state_has_no_topics(own_kafka: NewKafkaServer) -> None:
    server = own_kafka()
    produce(server, server.topic(name="topic"), b"before")
    server.kill()
    server.lose_state()
    server.start()
    assert stored(server, server.topic(name="topic")) == []


def test_broker_is_gone_when_the_test_run_is_killed(kafka_template: KafkaTemplate, tmp_path: Path) -> None:
    _, template = kafka_template
    command = [sys.executable, "-c", _OWNER, str(tmp_path), str(template)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        broker = int(owner.stdout.readline())
        os.kill(broker, 0)  # it is there
        owner.send_signal(signal.SIGKILL)
    eventually_here(lambda: not _lives(broker))


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
