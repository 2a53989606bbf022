"""What stands in deploy/ and docs/, and the names that it relies on."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).resolve().parents[2]
PROMETHEUS: Final = ROOT / "deploy" / "prometheus"
DASHBOARD: Final = ROOT / "deploy" / "grafana" / "dashboards" / "messenger-jobs.json"

_METRIC: Final = re.compile(r"\bmessenger_\w+")
_SELECTOR: Final = re.compile(r"\b(messenger_\w+)\{([^}]*)\}")
_MATCHER: Final = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
_GROUPED: Final = re.compile(r"\bby \(([^)]*)\)")


def rule_files() -> list[Path]:
    return sorted((PROMETHEUS / "rules").glob("*.yml"))


def rule_test_files() -> list[Path]:
    return sorted((PROMETHEUS / "tests").glob("*.test.yml"))


def loaded(file: Path) -> Any:
    return yaml.safe_load(file.read_text(encoding="utf-8"))


def alerts() -> list[dict[str, Any]]:
    return [rule for file in rule_files() for group in loaded(file)["groups"] for rule in group["rules"]]


def dashboard() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return content


def panels() -> Iterator[dict[str, Any]]:
    for panel in dashboard()["panels"]:
        yield panel
        yield from panel.get("panels", ())


def dashboard_queries() -> list[str]:
    return [target["expr"] for panel in panels() for target in panel.get("targets", ())]


def metrics_in(query: str) -> set[str]:
    return set(_METRIC.findall(query))


def matchers_in(query: str) -> list[tuple[str, str, str, str]]:
    """Metric, label, operator and value of everything that the query selects by."""
    return [
        (metric, *matcher)
        for metric, selector in _SELECTOR.findall(query)
        for matcher in _MATCHER.findall(selector)
    ]


def grouping_labels_in(query: str) -> set[str]:
    return {label.strip() for labels in _GROUPED.findall(query) for label in labels.split(",")}


def anchors(page: Path) -> set[str]:
    """The anchors that a reader's software makes of the page's headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
