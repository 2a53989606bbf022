"""The dashboard: that Grafana takes it, and that Prometheus understands what it asks."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.operation.deployed_files import dashboard, dashboard_queries, panels
from tests.operation.promtool import promtool


def test_every_panel_has_an_id_of_its_own_and_a_title() -> None:
    ids = [panel["id"] for panel in panels()]

    assert len(ids) == len(set(ids))
    assert all(panel["title"] for panel in panels())
    assert dashboard()["uid"] == "messenger-jobs"


def test_every_query_goes_to_the_prometheus_that_was_chosen() -> None:
    (variable,) = dashboard()["templating"]["list"]
    chosen = {"type": "prometheus", "uid": "${datasource}"}

    assert (variable["name"], variable["type"], variable["query"]) == (
        "datasource",
        "datasource",
        "prometheus",
    )
    for panel in panels():
        if panel["type"] != "row":
            assert panel["datasource"] == chosen
            assert panel["targets"]
            assert all(target["datasource"] == chosen for target in panel["targets"])


def test_no_panel_lies_on_another() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells


def test_prometheus_understands_every_query(tmp_path: Path) -> None:
    rules = [{"record": f"query:{number}", "expr": query} for number, query in enumerate(dashboard_queries())]
    file = tmp_path / "queries.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))

    finished = promtool("check", "rules", "--lint=none", file)

    assert finished.returncode == 0, finished.stdout + finished.stderr
