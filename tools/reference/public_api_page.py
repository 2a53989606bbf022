"""What a host may import, with the first sentence of what each name says of itself."""

from __future__ import annotations

import inspect
from importlib import import_module
from types import ModuleType
from typing import Final

MODULES: Final = (
    "messenger_jobs.application",
    "messenger_jobs.application.ports",
    "messenger_jobs.adapters.postgres",
    "messenger_jobs.adapters.kafka",
    "messenger_jobs.adapters.s3",
    "messenger_jobs.adapters.telemetry",
    "messenger_jobs.adapters.system",
    "messenger_jobs.adapters.local",
    "messenger_jobs.adapters.memory",
)

_HEAD: Final = """\
# Public API

Import these names from these modules, and no others: everything else may change without notice
([versioning](../versioning.md)). All of it is typed. The full contract of each is its docstring.
"""


def public_api_page() -> str:
    """The page."""
    return "\n".join([_HEAD, *(_module(import_module(name)) for name in MODULES)])


def _module(module: ModuleType) -> str:
    rows = [
        f"| `{name}` | {_told(getattr(module, name))} |" for name in sorted(module.__all__, key=str.lower)
    ]
    lines = (module.__doc__ or "").splitlines()
    return "\n".join([f"## `{module.__name__}`\n", f"{lines[0]}\n", "| Name | |", "|---|---|", *rows, ""])


def _told(value: object) -> str:
    if isinstance(value, str):
        return f"`{value}`"
    if not (inspect.isclass(value) or inspect.isroutine(value)):
        return "a type"
    paragraph = (inspect.getdoc(value) or "").split("\n\n")[0]
    sentence = " ".join(paragraph.split())
    return sentence.replace("``", "`").replace("|", "\\|")
