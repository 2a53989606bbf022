"""End to end, one server is enough: what differs between versions of PostgreSQL shows in the contracts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.rows import Rows

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    first: dict[str, object] = {}
    others = [
        item
        for item in items
        for fixture, server in _servers(item)
        if first.setdefault(fixture, server) is not server
    ]
    config.hook.pytest_deselected(items=others)
    items[:] = [item for item in items if item not in others]


def _servers(item: pytest.Item) -> list[tuple[str, object]]:
    """The choices of servers that an end-to-end test is parametrised with, by their fixtures."""
    callspec = getattr(item, "callspec", None)
    if _HERE not in item.path.parents or callspec is None:
        return []
    return [
        (name, callspec.params[name])
        for name in ("postgres_server", "local_postgres")
        if name in callspec.params
    ]


@pytest.fixture
def rows(database_url: str) -> Rows:
    return Rows(database_url)
