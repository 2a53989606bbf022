"""Where ids and random numbers come from; handed in, so that tests and simulations decide."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

NewId = Callable[[], UUID]
"""A fresh unique id at each call."""

Spread = Callable[[], float]
"""A number in [0, 1) at each call; shortens a backoff."""
