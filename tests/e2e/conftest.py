"""End to end, one server is enough: what differs between versions of PostgreSQL shows in the contracts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.rows import Rows

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    servers = [server for item in items if (server := _server(item)) is not None]
    others = [item for item in items if _server(item) not in (None, *servers[:1])]
    config.hook.pytest_deselected(items=others)
    items[:] = [item for item in items if item not in others]


def _server(item: pytest.Item) -> object:
    """The choice of server that an end-to-end test is parametrised with."""
    callspec = getattr(item, "callspec", None)
    if _HERE not in item.path.parents or callspec is None:
        return None
    return callspec.params.get("postgres_server")


@pytest.fixture
def rows(database_url: str) -> Rows:
    return Rows(database_url)
