"""Nothing readable as a message, an address or a name gets into ``last_error``."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.provisional import urls
from messenger_jobs.domain.errors import AttemptError, InvariantViolation

from tests.property.strategies import error_parts


def _accepted(category: str, code: str) -> str | None:
    try:
        return str(AttemptError(category, code))
    except InvariantViolation:
        return None


@given(category=error_parts | st.text(), code=error_parts | st.text())
def test_whatever_is_accepted_is_one_class_and_one_code_that_fit_the_column(category: str, code: str) -> None:
    stored = _accepted(category, code)

    if stored is not None:
        assert re.fullmatch(r"[A-Za-z0-9_.-]+:[A-Za-z0-9_.-]+", stored)
        assert stored.partition(":") == (category, ":", code)
        assert len(stored) <= 512


@given(category=error_parts, code=error_parts)
def test_plain_class_and_code_are_always_accepted(category: str, code: str) -> None:
    assert _accepted(category, code) == f"{category}:{code}"


@given(
    before=error_parts,
    outside=st.characters().filter(lambda character: not re.match(r"[A-Za-z0-9_.-]", character)),
    after=error_parts,
)
def test_one_character_outside_the_alphabet_is_enough_to_be_refused(
    before: str, outside: str, after: str
) -> None:
    for part in (outside + after, before + outside, before + outside + after):
        assert _accepted(part, "CODE") is None
        assert _accepted("Class", part) is None


@given(url=urls())
def test_addresses_are_refused(url: str) -> None:
    assert _accepted("Storage", url) is None
    assert _accepted(url, "TIMEOUT") is None


@given(length=st.integers(min_value=1, max_value=1100), category=error_parts)
def test_length_counts_as_a_whole(length: int, category: str) -> None:
    accepted = _accepted(category, "C" * length) is not None

    assert accepted is (len(category) + 1 + length <= 512)
