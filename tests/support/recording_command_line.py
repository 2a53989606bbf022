"""The commands over the memory adapters, where recordings are enabled."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager

from attrs import define
from messenger_jobs.adapters.memory.finalization import MemoryFinalizationStore
from messenger_jobs.adapters.memory.finalization_inspection import MemoryFinalizationInspection
from messenger_jobs.adapters.memory.ids import SequentialIds
from messenger_jobs.adapters.memory.outbox_queue import MemoryOutboxQueue
from messenger_jobs.adapters.memory.provisioning_inspection import MemoryProvisioningInspection
from messenger_jobs.adapters.memory.recording_storage import MemoryRecordingStorage
from messenger_jobs.domain.recording_finalize import FinalizeStatus
from messenger_jobs.entrypoints.bootstrap import Application, bootstrap
from messenger_jobs.entrypoints.settings import Settings

from tests.support.command_line import CommandLine
from tests.support.recordings import ENTRY_ID, a_recording, an_entry, found

ENABLED: Mapping[str, str] = {
    "MESSENGER_RECORDINGS_ENABLED": "true",
    "MESSENGER_S3_ENDPOINT": "storage.example",
    "MESSENGER_S3_ACCESS_KEY": "acc3ss-key",
    "MESSENGER_S3_SECRET_KEY": "s3cr3t-key",
    "MESSENGER_S3_BUCKET_CALL_RECORDINGS": "calls",
}


@define(slots=False)
class RecordingCommandLine(CommandLine):
    """The commands where recordings are enabled."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self.storage = MemoryRecordingStorage()

    def compose(self, settings: Settings) -> AbstractAsyncContextManager[Application]:
        return bootstrap(
            settings,
            clock=self.clock,
            locks=self.locks,
            store=self.store,
            finalizations=MemoryFinalizationStore(self.rows),
            inspection=MemoryProvisioningInspection(self.rows),
            queue=MemoryOutboxQueue(self.rows),
            publisher=self.publisher,
            finalization_inspection=MemoryFinalizationInspection(self.rows),
            storage=self.storage,
            database=self.database,
            new_id=SequentialIds(1),
            spread=lambda: 0.0,
        )

    def put_due(self, *, file: bool) -> None:
        self.rows.put(self.rows.recordings, a_recording())
        self.rows.put(self.rows.finalizations, an_entry())
        if file:
            self.storage.answer(a_recording().object_key, found())

    @property
    def entry_status(self) -> FinalizeStatus:
        entry = self.rows.row(self.rows.finalizations, ENTRY_ID)
        assert entry is not None
        return entry.status
