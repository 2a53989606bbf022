"""Where an attempt shows among the traces of all services."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Final, Protocol

from ..cycle_report import AttemptReport, Cycle


class AttemptSpan(Protocol):
    """The span of one attempt while it lasts."""

    def ended(self, report: AttemptReport) -> None:
        """Say what the attempt came to. An attempt whose context ends with an exception came to nothing."""
        ...


class Tracing(Protocol):
    """Opens spans around cycles and attempts; never raises and never changes what is done.

    The current span is that of the task and of the tasks it starts (`contextvars`).
    """

    def cycle(self, cycle: Cycle) -> AbstractContextManager[object]:
        """A span for as long as the context lasts; attempts made within are its children."""
        ...

    def attempt(self, cycle: Cycle) -> AbstractContextManager[AttemptSpan]:
        """A span for as long as the context lasts."""
        ...

    def headers(self) -> Mapping[str, str]:
        """What lets readers of a message go on with the current trace: ``traceparent``, or nothing without a trace."""
        ...


class _Untraced:
    def cycle(self, cycle: Cycle) -> AbstractContextManager[object]:
        del cycle
        return _NOTHING

    def attempt(self, cycle: Cycle) -> AbstractContextManager[AttemptSpan]:
        del cycle
        return _NOTHING

    def headers(self) -> Mapping[str, str]:
        return {}


class _NoSpan:
    def ended(self, report: AttemptReport) -> None:
        del report


_NOTHING: Final = nullcontext(_NoSpan())

UNTRACED: Final[Tracing] = _Untraced()
"""No spans, no headers, no cost."""
