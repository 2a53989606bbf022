from __future__ import annotations

import logging
from io import StringIO

import pytest
import structlog
from messenger_jobs.adapters.telemetry.logging import LogLevel, configure_logging

from tests.support.captured_logs import captured_logs


def test_lines_of_other_libraries_come_out_alike() -> None:
    with captured_logs() as logs:
        logging.getLogger("psycopg").warning("lost %s", "something")

    (line,) = logs.without_time()
    assert line == {"event": "lost something", "level": "warning", "logger": "psycopg"}


def test_other_libraries_exceptions_are_told_by_class_and_place() -> None:
    with captured_logs() as logs:
        try:
            raise ValueError("Flat 12, Ivanov")
        except ValueError:
            logging.getLogger("psycopg").exception("it failed")

    (line,) = logs.parsed
    assert line["error_code"] == "ValueError"
    assert line["frames"]
    assert "Ivanov" not in logs.text


def test_the_pool_does_not_repeat_itself_during_an_outage() -> None:
    with captured_logs() as logs:
        logging.getLogger("psycopg.pool").warning("error connecting")

    assert logs.text == ""


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("debug", ["debug", "info", "warning", "error"]),
        ("info", ["info", "warning", "error"]),
        ("warning", ["warning", "error"]),
        ("error", ["error"]),
    ],
)
def test_level_holds_for_our_own_lines(level: LogLevel, expected: list[str]) -> None:
    with captured_logs(level) as logs:
        log = structlog.get_logger()
        for method in (log.debug, log.info, log.warning, log.error):
            method("line")

    assert [line["level"] for line in logs.parsed] == expected


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("stream", "is_json"), [(StringIO(), True), (Terminal(), False)])
def test_without_a_format_a_terminal_is_for_people(stream: StringIO, is_json: bool) -> None:
    with captured_logs():  # restores the set-up
        configure_logging(None, "info", stream)
        structlog.get_logger().info("line")

    assert stream.getvalue().startswith("{") == is_json
    assert ("\x1b[" in stream.getvalue()) != is_json


def test_console_without_a_terminal_has_no_colours() -> None:
    stream = StringIO()
    with captured_logs():
        configure_logging("console", "info", stream)
        structlog.get_logger().info("line", rows=3)

    assert "rows=3" in stream.getvalue()
    assert "\x1b[" not in stream.getvalue()
