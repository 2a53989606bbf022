"""What this process logs, as parsed JSON lines."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from typing import Any

import structlog
from messenger_jobs.adapters.telemetry.logging import LogLevel, configure_logging


class LogLines:
    def __init__(self) -> None:
        self.stream = StringIO()

    @property
    def text(self) -> str:
        return self.stream.getvalue()

    @property
    def parsed(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text.splitlines()]

    def without_time(self) -> list[dict[str, Any]]:
        return [{name: value for name, value in line.items() if name != "timestamp"} for line in self.parsed]

    def events(self) -> list[str]:
        return [line["event"] for line in self.parsed]


@contextmanager
def captured_logs(level: LogLevel = "debug") -> Iterator[LogLines]:
    """The process's logging as in production, written to memory; undone at the end."""
    root = logging.getLogger()
    handlers, root_level = list(root.handlers), root.level
    lines = LogLines()
    configure_logging("json", level, lines.stream)
    try:
        yield lines
    finally:
        structlog.reset_defaults()
        root.handlers[:] = handlers
        root.setLevel(root_level)
