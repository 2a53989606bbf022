"""The alerts, fed with what a running worker really shows."""

from __future__ import annotations

import socket
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.recordings import Recordings
from tests.e2e.rows import Rows
from tests.operation.deployed_files import alerts, rule_files
from tests.operation.promtool import promtool
from tests.operation.runbooks import create_topics
from tests.support.eventually import eventually_here
from tests.support.kafka_servers import KafkaTestServer
from tests.support.processes import worker
from tests.support.s3_servers import Bucket

SCRAPES = 60  # one a minute before something happens, and as many after it
_LAST_SUCCESS = "messenger_job_last_success_timestamp_seconds"


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def scraped(port: int) -> list[Metric]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        return list(text_string_to_metric_families(answer.read().decode()))


def series(families: list[Metric]) -> dict[str, float]:
    """The samples as PromQL names them, times of day as seconds before now."""
    found: dict[str, float] = {}
    for family in families:
        for sample in family.samples:
            if sample.name.endswith("_created"):
                continue
            labels = {**sample.labels, "instance": "worker"}
            selector = ",".join(f'{key}="{value}"' for key, value in labels.items())
            name = f"{sample.name}{{{selector}}}"
            found[name] = sample.value - time.time() if sample.name == _LAST_SUCCESS else sample.value
    return found


def firing(folder: Path, before: dict[str, float], after: dict[str, float]) -> set[str]:
    """The alerts that fire an hour after it was so, having been as before for an hour."""
    values = {
        name: f"{before[name]:.6f}x{SCRAPES - 1} {after.get(name, before[name]):.6f}x{SCRAPES}"
        for name in before
    }
    for name in values:
        if name.startswith(_LAST_SUCCESS):  # succeeds at every scrape
            values[name] = f"0+60x{2 * SCRAPES}"
    names = sorted({alert["alert"] for alert in alerts()})
    case: dict[str, Any] = {
        "rule_files": [str(file) for file in rule_files()],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": value} for name, value in values.items()],
                "alert_rule_test": [
                    {"eval_time": f"{2 * SCRAPES - 1}m", "alertname": name, "exp_alerts": []}
                    for name in names
                ],
            }
        ],
    }
    file = folder / "real.test.yml"
    file.write_text(yaml.safe_dump(case))
    told = promtool("test", "rules", file)
    assert told.returncode in (0, 1), told.stderr
    return {name for name in names if f"alertname: {name}," in told.stdout + told.stderr}


def test_alerts_are_silent_on_a_healthy_worker_and_fire_on_what_happens_to_it(
    tmp_path: Path, rows: Rows, bucket: Bucket, kafka: KafkaTestServer, port: int
) -> None:
    create_topics(kafka.bootstrap_servers)
    settings = Recordings(rows.url, bucket).settings(
        MESSENGER_HTTP_PORT=port,
        MESSENGER_KAFKA_BOOTSTRAP_SERVERS=kafka.bootstrap_servers,
        MESSENGER_CHAT_PROVISION_RETRY_POLLING_INTERVAL="0.2",
        MESSENGER_CHAT_PROVISION_RETRY_MAX_ATTEMPTS="1",
    )
    with worker(rows.url, **settings) as running:
        running.logs("cycle completed", times=2)
        eventually_here(lambda: running.events.count("partitions assigned") > 0, within=60)
        healthy = series(scraped(port))
        rows.seed(3, without_members=3)
        running.logs("provision failed")
        eventually_here(lambda: rows.count("Ready") == 2)
        ill = series(scraped(port))

    assert firing(tmp_path, healthy, healthy) == set()
    # Given up, and created an hour ago.
    assert firing(tmp_path, healthy, ill) == {
        "MessengerChatProvisionPoison",
        "MessengerChatProvisionOldestAge",
    }


@pytest.fixture
def rows(database_url: str) -> Rows:
    return Rows(database_url)
