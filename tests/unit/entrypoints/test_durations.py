"""Durations as operators write them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from messenger_jobs.entrypoints.durations import LONGEST, parse_duration

SECONDS = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400}


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("90", timedelta(seconds=90)),
        ("90s", timedelta(seconds=90)),
        ("90 s", timedelta(seconds=90)),
        ("5m", timedelta(minutes=5)),
        ("1h", timedelta(hours=1)),
        ("7d", timedelta(days=7)),
        ("0.5", timedelta(milliseconds=500)),
        ("1.5h", timedelta(minutes=90)),
        ("0", timedelta(0)),
        ("365d", LONGEST),
    ],
)
def test_a_number_with_or_without_a_unit_is_a_duration(text: str, duration: timedelta) -> None:
    assert parse_duration(text) == duration


@pytest.mark.parametrize(
    "text",
    [
        "",
        "s",
        "-1",
        "+1",
        "1w",
        "1h30m",
        "1,5h",
        "1e3",
        ".5",
        "5.",
        "inf",
        "nan",
        "٣",
        "1\n",
        "9" * 400,
        "366d",
    ],
)
def test_everything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must"):
        parse_duration(text)


@given(st.sampled_from(sorted(SECONDS)), st.data())
def test_the_unit_multiplies(unit: str, data: st.DataObject) -> None:
    number = data.draw(st.integers(0, int(LONGEST.total_seconds()) // SECONDS[unit]))

    assert parse_duration(f"{number}{unit}") == timedelta(seconds=number * SECONDS[unit])


@given(st.text(max_size=20) | st.from_regex(r"[0-9]{1,12}[smhd]", fullmatch=True))
def test_no_text_is_read_as_a_duration_that_breaks_the_calendar(text: str) -> None:
    try:
        duration = parse_duration(text)
    except ValueError:
        return
    assert timedelta(0) <= duration <= LONGEST
