"""A recording may be broken in any way: it is judged within its budget, and nothing but a verdict comes of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from messenger_jobs.adapters.media.examination import examine
from messenger_jobs.adapters.media.ranged_file import MOST_BLOCKS
from messenger_jobs.adapters.media.stored_object import BLOCK, StoredObject
from messenger_jobs.domain.evidence import Found, Unsupported

from tests.support.media_files import FRAGMENTED, HEADER_FIRST, LIVE, RECIPES, MediaFile, cooked

FILES = [cooked(recipe) for recipe in [*RECIPES.values(), HEADER_FIRST, FRAGMENTED, LIVE]]


@st.composite
def broken_files(draw: st.DrawFn) -> MediaFile:
    """Cut off, with bytes changed, put in or taken out; headers are hit more often than media."""
    file = draw(st.sampled_from(FILES))
    content = bytearray(file.content)
    for _ in range(draw(st.integers(1, 8))):
        place = draw(st.integers(0, min(len(content), draw(st.sampled_from([64, 1024, len(content)])))))
        if draw(st.booleans()):  # counted from the end
            place = len(content) - place
        removed = draw(st.sampled_from([0, 1, 4, 8, 64]))
        inserted = draw(st.binary(max_size=16) | st.sampled_from([b"\xff" * 8, bytes(8), bytes(BLOCK)]))
        content[place : place + removed] = inserted
    if draw(st.booleans()):
        del content[draw(st.integers(0, len(content))) :]
    return MediaFile(bytes(content), file.content_type)


@given(broken_files())
def test_broken_recording_is_judged_within_the_budget(file: MediaFile) -> None:
    fetched: list[int] = []

    def read(offset: int, length: int) -> bytes:
        assert 0 < length <= BLOCK
        assert offset + length <= len(file.content)
        fetched.append(offset)
        return file.content[offset : offset + length]

    evidence = examine(
        StoredObject(
            object_key="key",
            size_bytes=len(file.content) or 1,
            content_type=file.content_type,
            metadata={},
            read=read if file.content else lambda *_: b"",
        )
    )
    assert evidence == Unsupported(code="CONTENT_MISMATCH") or isinstance(evidence, Found)
    assert len(fetched) == len(set(fetched)) <= MOST_BLOCKS
