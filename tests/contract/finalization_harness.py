"""What an adapter's test gives to the contract of `FinalizationStore`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

import pytest
from attrs import frozen
from messenger_jobs.application.announce_recording import Announcer
from messenger_jobs.application.ports.finalization import FinalizationChange, FinalizationStore
from messenger_jobs.application.ports.outbox import OutboxMessage
from messenger_jobs.application.ports.realtime_outbox import RealtimeNotice
from messenger_jobs.domain.call_recording import CallRecording
from messenger_jobs.domain.evidence import Evidence
from messenger_jobs.domain.finalization import FinalizeSnapshot, Verdict, settle
from messenger_jobs.domain.recording_finalize import RecordingFinalize

from tests.contract.store_harness import StoreHarness
from tests.support.builders import NOW, ids_from, some_id
from tests.support.recordings import FINALIZATION_RULES, a_recording, an_entry, found

Thing = CallRecording | RecordingFinalize

AS_OF: Final = NOW
LATER: Final = NOW + timedelta(seconds=7, microseconds=1)
new_id: Final = ids_from(7_000_000)
"""Never the same id twice, also over tests that share a database."""


class _Later:
    def now(self) -> object:
        return LATER


announcer: Final = Announcer(clock=_Later(), new_id=new_id)  # type: ignore[arg-type]  # only its time is asked for


@frozen(kw_only=True)
class Stored:
    """Everything that is committed, by id; messages in the order of their ids."""

    recordings: Sequence[CallRecording]
    entries: Sequence[RecordingFinalize]
    messages: Sequence[OutboxMessage]
    notices: Sequence[RealtimeNotice]

    def recording(self, id: UUID) -> CallRecording:
        return next(row for row in self.recordings if row.id == id)

    def entry(self, id: UUID) -> RecordingFinalize:
        return next(row for row in self.entries if row.id == id)

    def messages_about(self, recording_id: UUID) -> list[OutboxMessage]:
        return [row for row in self.messages if row.payload["recordingId"] == str(recording_id)]

    def notices_about(self, recording_id: UUID) -> list[RealtimeNotice]:
        return [row for row in self.notices if row.reference_id == recording_id]


class FinalizationHarness(StoreHarness[Thing, Stored]):
    """See `StoreHarness`."""

    store: FinalizationStore
    other: FinalizationStore


class FinalizationContract:
    """Base of the parts of the contract: an adapter's subclass overrides the fixture `harness`."""

    @pytest.fixture
    async def harness(self) -> FinalizationHarness:
        raise NotImplementedError("an adapter's subclass says what its harness is")


def a_new_pair(**changes: Any) -> tuple[CallRecording, RecordingFinalize]:
    """A recording to be finished and its intent, which is due, with ids of their own."""
    recording = a_recording(id=new_id(), **changes)
    return recording, an_entry(id=new_id(), recording_id=recording.id)


def verdict_on(seen: FinalizeSnapshot, evidence: Evidence | None = None) -> Verdict:
    """What is settled on this evidence, as if the row had been claimed before."""
    return settle(seen, evidence or found(), given_back_to=AS_OF, now=LATER, rules=FINALIZATION_RULES)


def change_of(verdict: Verdict) -> FinalizationChange:
    return announcer.change(verdict, some_id(77))


class RolledBack(Exception):
    """Ends somebody else's transaction."""
