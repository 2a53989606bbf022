"""What every command begins with, settings, logs and the application; and ends with: errors as sentences."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Generator
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

import structlog
import typer
from attrs import frozen

from ...adapters.telemetry.logging import LogFormat, configure_logging
from ...application.stop_signal import StopSignal
from .. import event_loop
from ..bootstrap import Application, bootstrap
from ..failures import told_in_one_sentence
from ..settings import Settings, likely_typos, load_settings
from ..signals import stopping_on_signals

T = TypeVar("T")


class Composition(Protocol):
    """How the application of some settings is built: `bootstrap`, unless a test or a host hands in its own."""

    def __call__(self, settings: Settings) -> AbstractAsyncContextManager[Application]:
        """Build it; closed with the context."""
        ...


@frozen(kw_only=True)
class Command:
    """A command under way: its settings, and its work on the application that they make."""

    settings: Settings
    compose: Composition

    def run(self, work: Callable[[Application], Awaitable[T]], *, whatever_the_database: bool = False) -> T:
        """Do ``work`` on a usable database, unless told that it need not be one."""

        async def composed() -> T:
            async with self.compose(self.settings) as application:
                if not whatever_the_database:
                    await application.database.ensure_usable()
                return await work(application)

        return event_loop.run(composed())

    def run_stoppably(self, work: Callable[[Application, StopSignal], Awaitable[T]]) -> T:
        """Do ``work`` until it ends or a signal ends it."""

        async def composed(stop: StopSignal) -> T:
            async with self.compose(self.settings) as application:
                return await work(application, stop)

        return event_loop.run(stopping_on_signals(composed, grace=self.settings.shutdown_grace))


@contextmanager
def command_of(
    context: typer.Context, config: Path | None, *, debug: bool, log_format: LogFormat | None = None
) -> Generator[Command]:
    """The command that `context` calls; within, every error ends it with an exit code and a sentence."""
    with told_in_one_sentence(debug=debug):
        settings = load_settings(os.environ, config)
        configure_logging(log_format or settings.log_format, settings.log_level)
        for name, meant in likely_typos(os.environ, config).items():
            structlog.get_logger(__name__).warning("unknown setting", name=name, did_you_mean=meant)
        yield Command(settings=settings, compose=context.obj or bootstrap)
