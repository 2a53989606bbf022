"""Traces without a tracer: one that an attempt is in the middle of, and one that remembers its spans."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Final

from attrs import define, field
from messenger_jobs.application.cycle_report import AttemptReport, Cycle
from messenger_jobs.application.ports.tracing import UNTRACED, AttemptSpan

TRACE: Final = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}


@define
class Traced:
    """Opens no spans of its own; whatever is sent belongs to the trace that is under way."""

    def cycle(self, cycle: Cycle) -> AbstractContextManager[object]:
        return UNTRACED.cycle(cycle)

    def attempt(self, cycle: Cycle) -> AbstractContextManager[AttemptSpan]:
        return UNTRACED.attempt(cycle)

    def headers(self) -> Mapping[str, str]:
        return TRACE


@define
class Span:
    """An attempt's, within the cycle's that is open; ``report`` is what it was said to have come to."""

    cycle: Cycle
    within: Cycle | None
    report: AttemptReport | None = None

    def ended(self, report: AttemptReport) -> None:
        self.report = report


@define
class RememberedSpans:
    """Every span of an attempt, in the order of their begins."""

    open_cycle: Cycle | None = None
    attempts: list[Span] = field(factory=list[Span])

    @contextmanager
    def cycle(self, cycle: Cycle) -> Generator[None]:
        self.open_cycle = cycle
        yield
        self.open_cycle = None

    @contextmanager
    def attempt(self, cycle: Cycle) -> Generator[Span]:
        span = Span(cycle, self.open_cycle)
        self.attempts.append(span)
        yield span

    def headers(self) -> Mapping[str, str]:
        return {}
