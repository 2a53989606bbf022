"""Set-up of structlog for this process: JSON for machines, colours for a terminal; other libraries' lines included."""

from __future__ import annotations

import logging
import sys
from typing import Final, Literal, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from .frames import frames

LogFormat = Literal["json", "console"]
LogLevel = Literal["debug", "info", "warning", "error"]

_LEVELS: Final[dict[LogLevel, int]] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
# They say the same at every attempt to connect, for as long as an outage lasts, the last two with addresses; ours is
# said once. A collector of traces that is away is no trouble of the jobs.
_TOO_TALKATIVE: Final = {
    "psycopg.pool": logging.ERROR,
    "aiokafka": logging.CRITICAL,
    "opentelemetry": logging.CRITICAL,
}


def configure_logging(format: LogFormat | None, level: LogLevel, stream: TextIO | None = None) -> None:
    """Write this process's log lines to ``stream`` (standard error) in ``format``, from ``level`` up.

    Without a format it is ``console`` on a terminal and ``json`` otherwise. Other libraries' lines (those of the
    standard ``logging``) come out in the same way, from warnings up. May be repeated; the last one counts.
    """
    output = stream or sys.stderr
    renderer = _renderer(format, output)
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    # Our own lines take structlog's short way to the stream: there is one for every row.
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(output),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(output)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                _without_exception_message,
                renderer,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(_LEVELS[level], logging.WARNING))
    for name, least in _TOO_TALKATIVE.items():
        logging.getLogger(name).setLevel(least)


def _renderer(format: LogFormat | None, output: TextIO) -> Processor:
    terminal = output.isatty()
    if format == "console" or (format is None and terminal):
        return structlog.dev.ConsoleRenderer(colors=terminal)
    return structlog.processors.JSONRenderer(ensure_ascii=False)


def _without_exception_message(logger: WrappedLogger, name: str, event: EventDict) -> EventDict:
    """An exception's message may quote a row's values; its class and its place say enough."""
    del logger, name
    match event.pop("exc_info", None):
        case (_, BaseException() as error, _):
            event["error_code"] = type(error).__name__
            event["frames"] = frames(error)
        case _:
            pass
    return event
