from __future__ import annotations

import os
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from messenger_jobs.adapters.media.ranged_file import MOST_BLOCKS, RangedFile, ReadBudgetSpent
from messenger_jobs.adapters.media.stored_object import BLOCK

CONTENT = os.urandom(3 * BLOCK + 17)


def file_of(content: bytes, asked: list[tuple[int, int]] | None = None) -> RangedFile:
    def read(offset: int, length: int) -> bytes:
        if asked is not None:
            asked.append((offset, length))
        return content[offset : offset + length]

    return RangedFile(len(content), read)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("read"), st.integers(-1, 4 * BLOCK)),
            st.tuples(st.just("set"), st.integers(0, 4 * BLOCK)),
            st.tuples(st.just("move"), st.integers(0, 2 * BLOCK)),
            st.tuples(st.just("end"), st.integers(-3 * BLOCK, BLOCK)),
        )
    )
)
def test_it_reads_as_any_file(steps: list[tuple[str, int]]) -> None:
    whence = {"set": os.SEEK_SET, "move": os.SEEK_CUR, "end": os.SEEK_END}
    file, model = file_of(CONTENT), BytesIO(CONTENT)
    for step, number in steps:
        if step == "read":
            assert file.read(number) == model.read(number)
        else:
            assert file.seek(number, whence[step]) == model.seek(number, whence[step])
        assert file.tell() == model.tell()


def test_place_before_the_start_is_refused() -> None:
    file = file_of(CONTENT)
    with pytest.raises(OSError, match="before its start"):
        file.seek(-1)
    with pytest.raises(OSError, match="before its start"):
        file.seek(-len(CONTENT) - 1, os.SEEK_END)
    assert file.tell() == 0


def test_blocks_are_fetched_once_and_whole_but_for_the_last() -> None:
    asked: list[tuple[int, int]] = []
    file = file_of(CONTENT, asked)
    for _ in range(3):
        file.seek(0)
        file.read(10)
        file.read(10)
        file.seek(-1, os.SEEK_END)
        file.read()
    assert asked == [(0, BLOCK), (3 * BLOCK, 17)]


def test_what_was_read_may_be_read_again_when_the_budget_is_spent() -> None:
    asked: list[tuple[int, int]] = []
    file = file_of(bytes((MOST_BLOCKS + 1) * BLOCK), asked)
    assert len(file.read(MOST_BLOCKS * BLOCK)) == MOST_BLOCKS * BLOCK
    with pytest.raises(ReadBudgetSpent):
        file.read(1)
    file.seek(5)
    assert file.read(5) == bytes(5)
    assert len(asked) == MOST_BLOCKS
    assert file.failure is None


def test_reading_everything_of_something_huge_ends_with_the_budget() -> None:
    file = RangedFile(10**15, lambda _, length: bytes(length))
    with pytest.raises(ReadBudgetSpent):
        file.read()


def test_failure_is_raised_and_kept() -> None:
    def read(offset: int, length: int) -> bytes:
        raise TimeoutError

    file = RangedFile(10, read)
    with pytest.raises(TimeoutError) as raised:
        file.read(1)
    assert file.failure is raised.value
