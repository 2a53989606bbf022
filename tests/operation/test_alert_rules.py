"""The alerting rules: that they load, that each fires when it should and only then, and what they tell."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.operation.deployed_files import ROOT, alerts, anchors, loaded, rule_files, rule_test_files
from tests.operation.promtool import promtool

ALERTS = alerts()
NAMES = [alert["alert"] for alert in ALERTS]

# What the two jobs' documents ask to be alerted of, and what went unnoticed in systems like this one.
REQUIRED = {
    "MessengerChatProvisionFailing",
    "MessengerChatProvisionOldestAge",
    "MessengerChatProvisionPoison",
    "MessengerChatProvisionNotRunning",
    "MessengerRecordingLossRate",
    "MessengerRecordingQuarantined",
    "MessengerRecordingOldestAge",
    "MessengerRecordingFinalizeNotRunning",
    "MessengerOutboxBacklog",
    "MessengerOutboxBacklogGrows",
    "MessengerOutboxOldestAge",
    "MessengerOutboxDead",
    "MessengerOutboxRelayNotRunning",
    "MessengerConfigurationFault",
    "MessengerDeadLetters",
}


def test_prometheus_can_load_the_rules() -> None:
    finished = promtool("check", "rules", "--lint=all", "--lint-fatal", *rule_files())

    assert finished.returncode == 0, finished.stdout + finished.stderr


@pytest.mark.parametrize("file", rule_test_files(), ids=lambda file: file.name)
def test_every_alert_fires_when_it_should_and_only_then(file: Any) -> None:
    finished = promtool("test", "rules", file)

    assert finished.returncode == 0, finished.stdout + finished.stderr


def test_every_alert_has_a_case_in_which_it_fires() -> None:
    firing = {
        expectation["alertname"]
        for file in rule_test_files()
        for case in loaded(file)["tests"]
        for expectation in case.get("alert_rule_test", ())
        if expectation["exp_alerts"]
    }

    assert firing == set(NAMES)


def test_every_file_of_rules_has_a_case_in_which_all_of_them_are_silent() -> None:
    silent = {
        (file.parent / rules).resolve()
        for file in rule_test_files()
        for rules in loaded(file)["rule_files"]
        for case in loaded(file)["tests"]
        for expectation in case.get("promql_expr_test", ())
        if expectation["expr"].startswith("ALERTS") and expectation["exp_samples"] == []
    }

    assert silent == set(rule_files())


def test_everything_that_somebody_must_be_told_has_an_alert() -> None:
    assert set(NAMES) >= REQUIRED
    assert len(set(NAMES)) == len(NAMES)


@pytest.mark.parametrize("alert", ALERTS, ids=NAMES)
def test_alert_says_how_urgent_it_is_and_where_to_read_on(alert: dict[str, Any]) -> None:
    page, _, anchor = alert["annotations"]["runbook_url"].partition("#")

    assert alert["labels"]["severity"] in ("critical", "warning")
    assert alert["annotations"]["summary"]
    assert alert["annotations"]["description"]
    assert anchor in anchors(ROOT / page)


@pytest.mark.parametrize("alert", ALERTS, ids=NAMES)
def test_alert_tells_numbers_and_stable_codes_and_nothing_of_a_row(alert: dict[str, Any]) -> None:
    told = " ".join(alert["annotations"].values())

    shown = {expression.split("|")[0].strip() for expression in re.findall(r"{{(.*?)}}", told)}
    assert shown <= {"$value", "$labels.job", "$labels.kind", "$labels.reason"}
