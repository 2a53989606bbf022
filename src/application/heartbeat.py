"""Signs of life of what runs for as long as its process."""

from __future__ import annotations

from collections.abc import Callable

Beat = Callable[[], None]
"""Called at every sign of life; never raises, never blocks."""


def unheard() -> None:
    """The beat where nobody listens."""
