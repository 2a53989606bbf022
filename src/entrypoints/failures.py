"""Every way to fail as one sentence and an exit code."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Final

import typer

from ..adapters.local.postgres_server_error import PostgresServerError
from ..application.ports.errors import PortError
from .database import DatabaseUnusable
from .http_server import CannotListen
from .settings import InvalidSettings, variable
from .signals import CutShort

FAILED: Final = 1
WRONG_USAGE: Final = 2


class Failure(Exception):
    """What was asked for could not be done; the sentence names the row or job at fault."""


class WrongUsage(Exception):
    """The command was called in a way that makes no sense."""


@contextmanager
def told_in_one_sentence(*, debug: bool) -> Generator[None]:
    """End the command with an exit code and a sentence on standard error; with ``debug``, also with the traceback."""
    try:
        yield
    except (typer.Exit, typer.Abort):
        raise
    except Exception as error:
        if debug:
            traceback.print_exc()
        code, sentences = _told(error)
        for sentence in sentences:
            tell(sentence)
        raise typer.Exit(code) from error


def tell(sentence: str) -> None:
    """Say on standard error what went wrong."""
    sys.stderr.write(f"messenger-jobs: {sentence}\n")


def _told(error: Exception) -> tuple[int, list[str]]:
    match error:
        case InvalidSettings():
            return WRONG_USAGE, _by_setting(error.problems)
        case WrongUsage():
            return WRONG_USAGE, [str(error)]
        case Failure() | DatabaseUnusable() | CutShort():
            return FAILED, [str(error)]
        case PortError():
            return FAILED, [f"{variable('database_url')}: {error}"]
        case CannotListen():
            return FAILED, [f"{variable('http_port')}: {error}"]
        case PostgresServerError():
            return FAILED, [str(error)]
        case _:
            # Its message may quote a row; where it comes from is for --debug.
            return FAILED, [f"unexpected {type(error).__name__}; --debug shows where it comes from"]


def _by_setting(problems: Mapping[str, str]) -> list[str]:
    return [f"{name} {problem}" for name, problem in problems.items()]
