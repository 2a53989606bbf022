"""Recordings that are to be finished, in the memory database and the memory storage, and the use cases on them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from attrs import define, field
from messenger_jobs.adapters.memory.finalization import MemoryFinalizationStore
from messenger_jobs.adapters.memory.recording_storage import MemoryRecordingStorage
from messenger_jobs.adapters.memory.schema import MessengerDatabase
from messenger_jobs.application.announce_recording import Announcer
from messenger_jobs.application.cycle_report import AttemptReport, Cycle
from messenger_jobs.application.finalize_uploaded_recording import FinalizeUploadedRecording, UploadResult
from messenger_jobs.application.open_finalization import OpenFinalization
from messenger_jobs.application.ports.outbox import OutboxMessage
from messenger_jobs.application.ports.realtime_outbox import RealtimeNotice
from messenger_jobs.application.recording_finalize_retry import RecordingFinalizeRetry
from messenger_jobs.application.requeue_finalizations import RequeueFinalizations
from messenger_jobs.domain.call_recording import CallRecording
from messenger_jobs.domain.finalization import FinalizationRules, FinalizeSnapshot
from messenger_jobs.domain.recording_finalize import RecordingFinalize

from tests.support.builders import some_id
from tests.support.recordings import ENTRY_ID, FINALIZATION_RULES, MEDIA, RECORDING_ID
from tests.unit.application.cycles import Bench, ScriptedSwitch

RUN_ID = some_id(77)


@define
class Uploads(Bench):
    """A process whose store and storage can be disturbed through `switch` and `storage_switch`."""

    rules: FinalizationRules = FINALIZATION_RULES
    looks_at_once: int = 8
    spread: Callable[[], float] = lambda: 0.0
    switch: ScriptedSwitch = field(factory=ScriptedSwitch)
    storage_switch: ScriptedSwitch = field(factory=ScriptedSwitch)
    database: MessengerDatabase = field(init=False)
    store: MemoryFinalizationStore = field(init=False)
    storage: MemoryRecordingStorage = field(init=False)
    job: RecordingFinalizeRetry = field(init=False)
    as_of: datetime = field(init=False)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self.as_of = self.clock.now()
        self.database = MessengerDatabase(self.clock)
        self.store = MemoryFinalizationStore(self.database, switch=self.switch)
        self.storage = MemoryRecordingStorage(switch=self.storage_switch)
        self.job = self.new_job()

    def new_job(self) -> RecordingFinalizeRetry:
        """The job as another process has it, on the same database and storage."""
        return RecordingFinalizeRetry(
            store=self.store,
            storage=self.storage,
            announcer=self.announcer,
            clock=self.clock,
            spread=self.spread,
            rules=self.rules,
            telemetry=self.telemetry,
            looks_at_once=self.looks_at_once,
        )

    @property
    def announcer(self) -> Announcer:
        return Announcer(clock=self.clock, new_id=self.new_id)

    @property
    def opening(self) -> OpenFinalization:
        return OpenFinalization(store=self.store, clock=self.clock, new_id=self.new_id)

    @property
    def requeue(self) -> RequeueFinalizations:
        return RequeueFinalizations(store=self.store, clock=self.clock)

    async def ingest(self) -> UploadResult:
        """The recorder's callback, through a connection that nobody disturbs."""
        store = MemoryFinalizationStore(self.database)
        return await FinalizeUploadedRecording(store=store, announcer=self.announcer, clock=self.clock)(
            RECORDING_ID,
            file_id=MEDIA.file_id,
            size_bytes=MEDIA.size_bytes,
            duration_seconds=MEDIA.duration_seconds,
            format=MEDIA.format,
            correlation_id=some_id(78),
        )

    def put(self, *things: CallRecording | RecordingFinalize) -> None:
        for thing in things:
            if isinstance(thing, CallRecording):
                self.database.put(self.database.recordings, thing)
            else:
                self.database.put(self.database.finalizations, thing)

    def putting(self, *things: CallRecording | RecordingFinalize) -> Callable[[], None]:
        """An action: somebody else commits these."""
        return lambda: self.put(*things)

    @property
    def cycle(self) -> Cycle:
        return Cycle(job=self.job.name, run_id=RUN_ID, as_of=self.as_of)

    async def read(self) -> list[FinalizeSnapshot]:
        return list(await self.job.candidates(as_of=self.clock.now(), after=None, limit=100))

    async def attempt(self) -> AttemptReport:
        """One turn of the only row that is due."""
        (candidate,) = await self.read()
        return await self.job.attempt(candidate, self.cycle)

    @property
    def entry(self) -> RecordingFinalize:
        entry = self.database.row(self.database.finalizations, ENTRY_ID)
        assert entry is not None
        return entry

    @property
    def recording(self) -> CallRecording:
        recording = self.database.row(self.database.recordings, RECORDING_ID)
        assert recording is not None
        return recording

    @property
    def entries(self) -> list[RecordingFinalize]:
        return self.database.rows(self.database.finalizations)

    @property
    def recordings(self) -> list[CallRecording]:
        return self.database.rows(self.database.recordings)

    @property
    def messages(self) -> list[OutboxMessage]:
        return [row.message for row in self.database.rows(self.database.outbox)]

    @property
    def notices(self) -> list[RealtimeNotice]:
        return self.database.rows(self.database.realtime_outbox)

    @property
    def told(self) -> list[str]:
        """What clients are told, in order."""
        return [notice.kind.value for notice in self.notices]
