from __future__ import annotations

import pytest
from messenger_jobs.adapters.memory.recording_storage import LOOK, MemoryRecordingStorage
from messenger_jobs.adapters.memory.switch import Phase, Step
from messenger_jobs.application.ports.errors import PortError
from messenger_jobs.domain.evidence import (
    Evidence,
    Found,
    Missing,
    RecordingFormat,
    StorageMisconfigured,
    Unreachable,
    Unsupported,
)

from tests.support.media_files import media_file

KEY = "calls/recording.ogg"
OGG = media_file(RecordingFormat.OGG)


def stored(storage: MemoryRecordingStorage) -> None:
    storage.put(KEY, OGG.content, content_type=OGG.content_type, metadata={})


@pytest.mark.parametrize(("phase", "connection_failed"), [(Phase.SENT, True), (Phase.ANSWERED, False)])
async def test_lost_request_or_answer_is_evidence_of_nothing(phase: Phase, connection_failed: bool) -> None:
    async def lose(step: Step) -> None:
        if step == Step(LOOK, phase):
            raise PortError("LOST", "it is lost")

    storage = MemoryRecordingStorage(switch=lose)
    stored(storage)
    assert await storage.look(KEY) == Unreachable(code="LOST", connection_failed=connection_failed)


async def test_others_may_change_what_is_there_before_the_request_arrives() -> None:
    async def upload(step: Step) -> None:
        if step.phase is Phase.SENT:
            stored(storage)
        else:
            storage.remove(KEY)

    storage = MemoryRecordingStorage(switch=upload)
    assert isinstance(await storage.look(KEY), Found)


@pytest.mark.parametrize(
    "evidence",
    [Missing(), Unsupported(code="OBJECT_ARCHIVED"), Unreachable(code="SLOW_DOWN", connection_failed=False)],
)
async def test_scripted_answer_is_given_until_something_else_is_there(evidence: Evidence) -> None:
    storage = MemoryRecordingStorage()
    storage.answer(KEY, evidence)
    assert [await storage.look(KEY), await storage.look(KEY)] == [evidence, evidence]
    stored(storage)
    assert isinstance(await storage.look(KEY), Found)
    storage.remove(KEY)
    assert await storage.look(KEY) == Missing()


async def test_fault_of_the_whole_storage_hides_everything_in_it() -> None:
    storage = MemoryRecordingStorage()
    stored(storage)
    storage.fault = StorageMisconfigured(code="NO_SUCH_BUCKET")
    assert [await storage.look(KEY), await storage.look("other")] == [storage.fault, storage.fault]
    storage.fault = None
    assert isinstance(await storage.look(KEY), Found)
    assert storage.looks == [KEY, "other", KEY]
