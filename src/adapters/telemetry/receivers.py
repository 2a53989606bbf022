"""Telling several receivers the same."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

_LOG: Final = logging.getLogger(__name__)

Receiver = TypeVar("Receiver")


def tell_all(receivers: Iterable[Receiver], message: Callable[[Receiver], None]) -> None:
    """Tell every receiver in turn.

    One that raises all the same is reported in the standard log, by the error's class, and the others are told
    nevertheless.
    """
    for receiver in receivers:
        try:
            message(receiver)
        except Exception as error:  # noqa: BLE001 - what is done must not depend on who listens
            _LOG.error("%s failed: %s", type(receiver).__name__, type(error).__name__)
