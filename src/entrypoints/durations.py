"""Durations as operators write them."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

LONGEST: Final = timedelta(days=365)
_DURATION: Final = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,12})?) ?([smhd]?)")
_UNITS: Final = {
    "": timedelta(seconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}


def parse_duration(text: str) -> timedelta:
    """Read seconds, or a number with a unit: ``90``, ``0.5``, ``90s``, ``5m``, ``1h``, ``7d``.

    Raises `ValueError` for anything else, and beyond a year: added to a date, such a duration leaves the calendar.
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError("must be seconds or a duration such as 90s, 5m, 1h or 7d")
    number, unit = float(match[1]), _UNITS[match[2]]
    if number > LONGEST / unit:  # their product may be more than a timedelta holds
        raise ValueError("must not be longer than 365d")
    return number * unit
