"""Whoever uploads writes an object's metadata: any text is taken for what it is worth, and never for a number."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st
from messenger_jobs.adapters.media.examination import examine
from messenger_jobs.adapters.media.stored_object import StoredObject
from messenger_jobs.domain.evidence import Found, RecordingFormat, Unsupported

from tests.support.media_files import media_file
from tests.support.recordings import a_recording

FILE = media_file(RecordingFormat.WEBM)

texts = st.text(max_size=40) | st.sampled_from(
    [
        "nan",
        "-inf",
        "1e400",
        "9" * 5_000,
        "-1",
        "0x10",
        "1_0",
        "١٢",
        " 1 ",
        "1,5",
        "\0",
        "{urn:uuid:}" + "0" * 32,
    ]
)
names = texts | st.sampled_from(["file-id", "File-Id", "duration-seconds", "DURATION-SECONDS"])
content_types = (
    texts
    | st.none()
    | st.builds(
        "{}; codecs={}".format, st.sampled_from(["video/webm", "VIDEO/WEBM", FILE.content_type]), texts
    )
)


@given(st.dictionaries(names, texts, max_size=4), content_types)
@example({"duration-seconds": "9" * 5_000, "file-id": "9" * 5_000}, "video/webm")
def test_whatever_is_said_of_an_object_it_is_judged_and_can_be_adopted(
    metadata: dict[str, str], content_type: str | None
) -> None:
    evidence = examine(
        StoredObject(
            object_key="calls/key",
            size_bytes=len(FILE.content),
            content_type=content_type,
            metadata=metadata,
            read=lambda offset, length: FILE.content[offset : offset + length],
        )
    )
    if isinstance(evidence, Unsupported):
        assert evidence.code in ("UNKNOWN_CONTENT_TYPE", "CONTENT_MISMATCH")
        return
    assert isinstance(evidence, Found)
    media = a_recording().media_from(evidence)
    assert 0 <= media.duration_seconds < 2**31
    assert media.size_bytes == len(FILE.content)
