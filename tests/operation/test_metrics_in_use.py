"""Alerts and dashboard ask for what a running worker shows, by its names and its labels."""

from __future__ import annotations

import socket
import urllib.request
from collections.abc import Mapping
from typing import Final

import pytest
from messenger_jobs.application.cycle_report import CycleEnd
from messenger_jobs.entrypoints.bootstrap import JOB_NAMES
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.recordings import Recordings
from tests.operation.deployed_files import (
    alerts,
    dashboard_queries,
    grouping_labels_in,
    matchers_in,
    metrics_in,
)
from tests.operation.runbooks import create_topics
from tests.support.kafka_servers import KafkaTestServer
from tests.support.processes import worker
from tests.support.s3_servers import Bucket

QUERIES: Final = sorted({*(alert["expr"] for alert in alerts()), *dashboard_queries()})

# A label of a message that was set aside is there once one was; every scrape adds `instance`, a histogram `le`.
LATER: Final[Mapping[str, frozenset[str]]] = {
    "messenger_deal_created_dead_lettered_total": frozenset({"reason"})
}
FROM_PROMETHEUS: Final = {"instance"}

Shown = Mapping[str, frozenset[str]]


@pytest.fixture(scope="module")
def shown(module_database_url: str, module_bucket: Bucket, kafka: KafkaTestServer) -> Shown:
    """The names of all series of a worker that does everything, with their labels."""
    create_topics(kafka.bootstrap_servers)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    settings = Recordings(module_database_url, module_bucket).settings(
        MESSENGER_HTTP_PORT=port, MESSENGER_KAFKA_BOOTSTRAP_SERVERS=kafka.bootstrap_servers
    )
    with worker(module_database_url, **settings) as running:
        running.logs("cycle completed", times=2)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            families = list(text_string_to_metric_families(answer.read().decode()))
    series: dict[str, frozenset[str]] = {}
    for family in families:
        if family.type == "counter" and not family.samples:
            series[f"{family.name}_total"] = LATER.get(f"{family.name}_total", frozenset())
        for sample in family.samples:
            series[sample.name] = series.get(sample.name, frozenset()) | frozenset(sample.labels)
    return series


@pytest.mark.parametrize("metric", sorted(set().union(*map(metrics_in, QUERIES))))
def test_metric_is_shown(shown: Shown, metric: str) -> None:
    assert metric in shown


@pytest.mark.parametrize("query", QUERIES, ids=range(len(QUERIES)))
def test_labels_are_shown(shown: Shown, query: str) -> None:
    known = frozenset().union(
        FROM_PROMETHEUS, *(shown.get(metric, frozenset()) for metric in metrics_in(query))
    )

    assert grouping_labels_in(query) <= known
    for metric, label, _, _ in matchers_in(query):
        assert label in shown[metric] | FROM_PROMETHEUS


def test_values_that_are_selected_by_exist() -> None:
    known = {"job": {*JOB_NAMES, "outbox-relay"}, "outcome": {end.value for end in CycleEnd}}

    for query in QUERIES:
        for _, label, _, value in matchers_in(query):
            assert value in known[label]


def test_alerts_and_dashboard_leave_no_metric_of_the_contract_aside(shown: Shown) -> None:
    ours = {name for name in shown if name.startswith("messenger_")}
    bare = {name for name in ours if not name.endswith(("_created", "_bucket", "_sum"))}

    assert bare - set().union(*map(metrics_in, QUERIES)) == set()
