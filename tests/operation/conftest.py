"""One PostgreSQL is enough for what does not depend on its version: only permissions are tried on all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

_HERE: Final = Path(__file__).parent
_ON_EVERY_SERVER: Final = {"test_database_roles.py"}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    servers = [server for item in items if (server := _server(item)) is not None]
    others = [item for item in items if _server(item) not in (None, *servers[:1])]
    config.hook.pytest_deselected(items=others)
    items[:] = [item for item in items if item not in others]


def _server(item: pytest.Item) -> object:
    """The choice of server that a test is parametrised with, when one of them is enough."""
    callspec = getattr(item, "callspec", None)
    if item.path.parent != _HERE or item.path.name in _ON_EVERY_SERVER or callspec is None:
        return None
    return callspec.params.get("postgres_server")
