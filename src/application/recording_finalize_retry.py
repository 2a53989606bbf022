"""The ``recording-finalize-retry`` job: recordings that never became ``Available`` or ``Failed`` are finished."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final
from uuid import UUID

from attrs import define, evolve, field

from ..domain.call_recording import CallRecording
from ..domain.errors import AttemptError
from ..domain.evidence import Evidence, Unreachable
from ..domain.finalization import (
    Claim,
    FinalizationRules,
    FinalizeSnapshot,
    Settled,
    Verdict,
    fail,
    open_attempt,
    refuse,
    release,
    settle,
)
from .announce_recording import Announcer
from .cursor import Cursor
from .cycle_report import AttemptReport, Cycle
from .finalization_report import report, skipped
from .ports.clock import Clock
from .ports.entropy import Spread
from .ports.errors import DatabaseUnavailable, DataRejected, Misconfigured, PortError, RowRolledBack
from .ports.finalization import FinalizationStore
from .ports.recording_storage import RecordingStorage
from .ports.telemetry import Telemetry
from .storage_guard import StorageGuard

RECORDING_FINALIZE_RETRY: Final = "recording-finalize-retry"

_WITNESSES: Final = 100  # rows read to find one that storage would be asked for


@define(kw_only=True, eq=False)
class RecordingFinalizeRetry:
    """Claim, look, settle: two short transactions with storage asked in between, no connection held meanwhile.

    Storage is asked for ``looks_at_once`` recordings at a time; a row that is claimed and waits for its look is given
    back when storage turns out to be down, or the cycle ends. The count stands before the risky part: a runner that
    dies while it asks has used an attempt.
    """

    store: FinalizationStore
    storage: RecordingStorage
    announcer: Announcer
    clock: Clock
    spread: Spread
    rules: FinalizationRules
    telemetry: Telemetry
    looks_at_once: int
    _guarded_run: UUID | None = field(default=None, init=False)
    _guard: StorageGuard = field(init=False)
    _in_doubt: bool = field(default=False, init=False)
    """The last settling found the database unavailable: on a full disk, say, each claim takes room from giving back."""
    _alone: asyncio.Lock = field(factory=asyncio.Lock, init=False)

    def __attrs_post_init__(self) -> None:
        self._guard = StorageGuard(self.storage, asyncio.Semaphore(self.looks_at_once))

    @property
    def name(self) -> str:
        """``recording-finalize-retry``."""
        return RECORDING_FINALIZE_RETRY

    async def candidates(
        self, *, as_of: datetime, after: Cursor | None, limit: int
    ) -> Sequence[FinalizeSnapshot]:
        """The next rows due, with their recordings."""
        return await self.store.candidates(as_of=as_of, after=after, limit=limit)

    def cursor(self, candidate: FinalizeSnapshot) -> Cursor:
        """The row's place in the order of schedule and id."""
        return Cursor(next_attempt_at=candidate.entry.schedule.next_attempt_at, id=candidate.entry.id)

    async def attempt(self, candidate: FinalizeSnapshot, cycle: Cycle) -> AttemptReport:
        """Take one row's turn; all of it is committed when this returns.

        When it raises or is cancelled before the look, nothing happened. A failure of the database afterwards gives the
        claim back, as far as the database lets it; a cancellation leaves it, its attempt counted, and the schedule lets
        the row come back.
        """
        verdict = self._open(candidate, cycle)
        if isinstance(verdict, Claim):
            return await self._reconcile(candidate, verdict, cycle)
        return await self._write(candidate, verdict, cycle)

    async def preview(self, candidate: FinalizeSnapshot, cycle: Cycle) -> AttemptReport:
        """What an attempt would report if nobody else interfered; asks storage, writes nothing."""
        verdict = self._open(candidate, cycle)
        if not isinstance(verdict, Claim):
            return report(candidate, verdict)
        guard = self._guard_of(cycle)
        if guard.closed:
            return skipped(candidate)
        claimed = evolve(candidate, entry=verdict.entry)
        evidence, outage = await self._look(candidate, guard, cycle)
        return report(candidate, self._settle(claimed, evidence, candidate, cycle, outage=outage))

    def _now(self, cycle: Cycle) -> datetime:
        """A wall clock that was set back must not schedule a row into the same cycle again."""
        return max(self.clock.now(), cycle.as_of)

    def _open(self, candidate: FinalizeSnapshot, cycle: Cycle) -> Verdict:
        return open_attempt(candidate, now=self._now(cycle), spread=self.spread(), rules=self.rules)

    async def _reconcile(self, candidate: FinalizeSnapshot, claim: Claim, cycle: Cycle) -> AttemptReport:
        """One row at a time while it is not known whether the database takes what is claimed to its end."""
        if self._in_doubt:
            async with self._alone:
                if not cycle.may_begin():
                    return skipped(candidate)
                if self._in_doubt:
                    return await self._claim(candidate, claim, cycle)
        return await self._claim(candidate, claim, cycle)

    async def _claim(self, candidate: FinalizeSnapshot, claim: Claim, cycle: Cycle) -> AttemptReport:
        guard = self._guard_of(cycle)
        if guard.closed or not await self.store.write(self.announcer.change(claim, cycle.run_id)):
            return skipped(candidate)
        claimed = evolve(candidate, entry=claim.entry)
        try:
            settled = await self._look_and_settle(candidate, claimed, guard, cycle)
        except PortError as error:
            self._in_doubt = isinstance(error, DatabaseUnavailable)
            await self._give_back(candidate, claimed, error, cycle)
            raise
        self._in_doubt = False
        return settled

    async def _give_back(
        self, candidate: FinalizeSnapshot, claimed: FinalizeSnapshot, error: PortError, cycle: Cycle
    ) -> None:
        """Uncount an attempt that the database did not let settle.

        On a full disk, say, a claim finds room where its event does not, and every row would end in quarantine. Writes
        nothing when the settling was stored and only its answer lost; if this cannot be stored, the claim stands.
        """
        released = release(
            claimed.entry,
            AttemptError("Postgres", error.code),
            given_back_to=candidate.entry.schedule.next_attempt_at,
            now=self._now(cycle),
        )
        with suppress(PortError):
            await self.store.write(self.announcer.change(released, cycle.run_id))

    async def _look_and_settle(
        self, candidate: FinalizeSnapshot, claimed: FinalizeSnapshot, guard: StorageGuard, cycle: Cycle
    ) -> AttemptReport:
        evidence, outage = await self._look(candidate, guard, cycle)
        if (fault := guard.take_fault()) is not None:
            self.telemetry.configuration_fault(
                cycle, Misconfigured(fault.code, "the storage of recordings must be set up by a person")
            )
        for _ in range(3):
            verdict = self._settle(claimed, evidence, candidate, cycle, outage=outage)
            try:
                written = await self.store.write(self.announcer.change(verdict, cycle.run_id))
            except DataRejected as rejection:
                error = AttemptError("Postgres", rejection.code)
                verdict = fail(claimed.entry, error, now=self._now(cycle), rules=self.rules)
                written = await self.store.write(self.announcer.change(verdict, cycle.run_id))
            if written:
                return report(claimed, verdict)
            again = await self._as_left_by_others(claimed)
            if again is None or again.entry != claimed.entry:
                return skipped(candidate)
            claimed = again
        raise RowRolledBack("RECORDING_CHANGING", "the recording kept changing while it was being settled")

    async def _as_left_by_others(self, claimed: FinalizeSnapshot) -> FinalizeSnapshot | None:
        """The row once whoever has it or its recording in hand, such as the ingest callback, is done with it."""
        async with self.store.begin() as work:
            await work.lock(claimed.entry.recording_id)
            await work.lock_entry(claimed.entry.id)
        return await self.store.snapshot(claimed.entry.id)

    async def _write(self, candidate: FinalizeSnapshot, verdict: Verdict, cycle: Cycle) -> AttemptReport:
        try:
            written = await self.store.write(self.announcer.change(verdict, cycle.run_id))
        except DataRejected as rejection:
            error = AttemptError("Postgres", rejection.code)
            verdict = refuse(
                candidate.entry, error, now=self._now(cycle), spread=self.spread(), rules=self.rules
            )
            written = await self.store.write(self.announcer.change(verdict, cycle.run_id))
        return report(candidate, verdict) if written else skipped(candidate)

    async def _look(
        self, candidate: FinalizeSnapshot, guard: StorageGuard, cycle: Cycle
    ) -> tuple[Evidence | None, bool]:
        """What storage says, if it was asked before the cycle ended, and whether its silence is an outage."""

        async def others() -> Sequence[CallRecording]:
            return await self._others_to_look_at(candidate, cycle)

        assert candidate.recording is not None, "only a row with a recording is claimed"
        evidence = await guard.look(candidate.recording, may_begin=cycle.may_begin)
        if evidence is None:
            return None, False
        return evidence, await guard.blames_outage(candidate.recording, evidence, others)

    async def _others_to_look_at(self, candidate: FinalizeSnapshot, cycle: Cycle) -> Sequence[CallRecording]:
        behind = await self.candidates(as_of=cycle.as_of, after=self.cursor(candidate), limit=_WITNESSES)
        return [
            seen.recording
            for seen in behind
            if seen.recording is not None and isinstance(self._open(seen, cycle), Claim)
        ]

    def _settle(
        self,
        claimed: FinalizeSnapshot,
        evidence: Evidence | None,
        candidate: FinalizeSnapshot,
        cycle: Cycle,
        *,
        outage: bool,
    ) -> Settled:
        given_back_to, now = candidate.entry.schedule.next_attempt_at, self._now(cycle)
        if evidence is None:
            return release(claimed.entry, None, given_back_to=given_back_to, now=now)
        if outage and isinstance(evidence, Unreachable):
            error = AttemptError("Storage", evidence.code)
            return release(claimed.entry, error, given_back_to=given_back_to, now=now)
        return settle(claimed, evidence, given_back_to=given_back_to, now=now, rules=self.rules)

    def _guard_of(self, cycle: Cycle) -> StorageGuard:
        if self._guarded_run != cycle.run_id:
            self._guarded_run = cycle.run_id
            self._guard.reopen()
        return self._guard
