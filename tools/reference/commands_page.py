"""The commands and their options, as the command line knows them."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any, Final

import typer
from messenger_jobs.entrypoints.cli import app

_OF_EVERY_COMMAND: Final = ("as_json", "config", "debug")

_HEAD: Final = """\
# Commands

`messenger-jobs COMMAND`. Results go to standard output, logs and errors to standard error.

| Exit code | |
|---|---|
| 0 | done |
| 1 | failed; one sentence says what and why |
| 2 | wrong usage or settings; each wrong setting is named |

Every command takes `--json` (JSON instead of a table) and `--debug` (the traceback of an error); all but `demo` take
`--config FILE` (a file of settings, `NAME=value` a line).
"""


def commands_page() -> str:
    """The page."""
    return "\n".join(
        [_HEAD, *(_command(name, command) for name, command in _commands(typer.main.get_command(app)))]
    )


def _commands(group: Any, *path: str) -> Iterator[tuple[str, Any]]:
    for name, command in sorted(group.commands.items()):
        if hasattr(command, "commands"):
            yield from _commands(command, *path, name)
        else:
            yield " ".join((*path, name)), command


def _command(name: str, command: Any) -> str:
    parameters = [parameter for parameter in command.params if parameter.name not in _OF_EVERY_COMMAND]
    usage = " ".join(["messenger-jobs", name, *map(_usage, parameters)])
    lines = [f"## `{name}`\n", f"{command.help}\n", f"```text\n{usage}\n```\n"]
    if parameters:
        lines += ["| | |", "|---|---|"]
        lines += [
            f"| `{_cell(_name(parameter))}` | {_cell(parameter.help)}{_default(parameter)} |"
            for parameter in parameters
        ]
        lines.append("")
    return "\n".join(lines)


def _name(parameter: Any) -> str:
    """As it is written on the command line: ``--state due|waiting``, ``--error CODE`` or ``JOB``."""
    name: str = parameter.opts[0]
    if not name.startswith("-"):
        return str(parameter.metavar or name.upper())
    return name if parameter.is_flag else f"{name} {parameter.metavar or _value(parameter)}"


def _value(parameter: Any) -> str:
    kind: type = parameter.type_descriptor.annotation
    if issubclass(kind, Enum):
        return "|".join(str(choice.value) for choice in kind)
    return "NUMBER" if issubclass(kind, int) else "TEXT"


def _default(parameter: Any) -> str:
    default = parameter.default
    if default in (None, False):
        return ""
    return f" Default: `{default.value if isinstance(default, Enum) else default}`."


def _usage(parameter: Any) -> str:
    name = _name(parameter)
    return name if parameter.required or name.startswith("[") else f"[{name}]"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
