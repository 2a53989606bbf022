"""The life of one recording's finalization among runners, the recorder's callback, other writers and an operator."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from attrs import evolve, frozen
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
)
from messenger_jobs.domain.call_recording import (
    DURATION_TOLERANCE,
    CallRecording,
    RecordingAvailable,
    RecordingFailed,
    RecordingStatus,
)
from messenger_jobs.domain.errors import IllegalTransition
from messenger_jobs.domain.evidence import (
    Empty,
    Evidence,
    Missing,
    StorageMisconfigured,
    Unreachable,
    Unsupported,
)
from messenger_jobs.domain.finalization import (
    Adopt,
    Claim,
    FinalizeSnapshot,
    Release,
    Republish,
    TimeOut,
    Verdict,
    open_attempt,
    settle,
)
from messenger_jobs.domain.recording_finalize import FinalizeStatus, RecordingFinalize

from tests.property.strategies import spreads
from tests.support.builders import NOW
from tests.support.recordings import FINALIZATION_RULES, LASTED, MEDIA, SLA, a_recording, an_entry, found

FAULTS: list[Evidence] = [
    Unreachable(code="TIMED_OUT", connection_failed=False),
    StorageMisconfigured(code="NO_SUCH_BUCKET"),
    Unsupported(code="UNKNOWN_CONTENT_TYPE"),
]
rarely = st.integers(min_value=0, max_value=7).map(lambda number: number == 7)
durations = st.none() | st.timedeltas(min_value=-timedelta(days=2), max_value=timedelta(days=2))


@given(stated=durations, measured=durations)
def test_adopted_duration_can_always_be_true(stated: timedelta | None, measured: timedelta | None) -> None:
    evidence = found(stated_duration=stated, measured_duration=measured)
    adopted = timedelta(seconds=a_recording().media_from(evidence).duration_seconds)
    assert timedelta(0) <= adopted <= LASTED + DURATION_TOLERANCE
    believable = [
        duration
        for duration in (stated, measured, LASTED)
        if duration is not None and timedelta(0) <= duration <= LASTED + DURATION_TOLERANCE
    ]
    assert abs(adopted - believable[0]) <= timedelta(seconds=0.5)


@frozen(kw_only=True)
class Look:
    """A claim whose runner is asking storage, and may settle much later, or never."""

    claimed: FinalizeSnapshot
    given_back_to: datetime
    evidence: Evidence


class FinalizationLife(RuleBasedStateMachine):
    """One recording and its intent, and everybody who can touch them; writes are guarded as every store must."""

    look_aheads: Bundle[FinalizeSnapshot] = Bundle("look_aheads")
    looks: Bundle[Look] = Bundle("looks")

    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.limits = FINALIZATION_RULES
        self.recording: CallRecording = a_recording(session_ended_at=None, ended_at=None, version=0)
        self.entry: RecordingFinalize = an_entry(version=0)
        self.file_is_there = False
        self.fault: Evidence | None = None
        self.announced = 0
        self.clients_told: list[RecordingAvailable | RecordingFailed] = []
        self.lost_though_there = False
        self.looked = 0
        self.released = 0
        self.refusals = 0
        self.finished_before: tuple[CallRecording, FinalizeStatus] | None = None

    @initialize(
        max_attempts=st.integers(min_value=1, max_value=3),
        status=st.sampled_from([RecordingStatus.RECORDING, RecordingStatus.UPLOADING]),
        session_ended_at=st.sampled_from([None, NOW, NOW - SLA]),
    )
    def call_begins(
        self, max_attempts: int, status: RecordingStatus, session_ended_at: datetime | None
    ) -> None:
        self.limits = evolve(self.limits, max_attempts=max_attempts)
        self.recording = evolve(self.recording, status=status, session_ended_at=session_ended_at)

    @rule(seconds=st.integers(min_value=1, max_value=2_400))
    def time_passes(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @rule()
    def session_ends(self) -> None:
        if self.recording.session_ended_at is None and not self.recording.terminal:
            self._touch_recording(session_ended_at=self.now)

    @rule()
    def file_is_uploaded(self) -> None:
        self.file_is_there = True

    @rule(fault=st.sampled_from([None, *FAULTS]))
    def storage_goes_down_or_up(self, fault: Evidence | None) -> None:
        self.fault = fault

    # Rare, since they leave little to be done.

    @rule(comes=rarely)
    def callback_comes(self, comes: bool) -> None:
        if self.recording.terminal or not comes:
            return
        self.file_is_there = True
        self.recording, event = self.recording.became_available(MEDIA, now=self.now)
        self.announced += 1
        self.clients_told.append(event)
        if self.entry.status is not FinalizeStatus.DONE:
            self.entry = self.entry.done(now=self.now)

    @rule(available=st.booleans(), does=rarely)
    def another_writer_finishes_the_recording_and_crashes(self, available: bool, does: bool) -> None:
        if self.recording.terminal or not does:
            return
        if available:
            self.file_is_there = True
            self.recording, _ = self.recording.became_available(MEDIA, now=self.now)
        else:
            self._touch_recording(status=RecordingStatus.FAILED, failure_reason="RecorderError")

    @rule(target=look_aheads)
    def runner_reads_ahead(self) -> MultipleResults[FinalizeSnapshot] | FinalizeSnapshot:
        return self._snapshot() if self._comes_due() else multiple()

    @rule(target=looks, seen=look_aheads, spread=spreads)
    def runner_takes_what_it_read(
        self, seen: FinalizeSnapshot, spread: float
    ) -> MultipleResults[Look] | Look:
        return self._take(seen, spread)

    @rule(target=looks, spread=spreads)
    def runner_takes_the_row_as_it_is(self, spread: float) -> MultipleResults[Look] | Look:
        return self._take(self._snapshot(), spread) if self._comes_due() else multiple()

    @rule(look=looks)
    def runner_settles(self, look: Look) -> None:
        claimed = look.claimed
        while self.entry == claimed.entry:
            verdict = settle(
                claimed,
                look.evidence,
                given_back_to=look.given_back_to,
                now=self.now,
                rules=self.limits,
            )
            if isinstance(verdict, TimeOut) and not isinstance(look.evidence, (Missing, Empty)):
                self.lost_though_there = True
            if self._write(claimed, verdict):
                self.released += isinstance(verdict, Release)
                return
            claimed = self._snapshot()

    @rule(spread=spreads, fault=st.sampled_from([None, *FAULTS]))
    def runner_takes_the_row_and_settles(self, spread: float, fault: Evidence | None) -> None:
        if not self._comes_due():
            return
        self.fault = fault
        look = self._take(self._snapshot(), spread)
        if isinstance(look, Look):
            self.runner_settles(look)

    @rule()
    def operator_requeues(self) -> None:
        if self.entry.status is FinalizeStatus.DONE:
            with pytest.raises(IllegalTransition):
                self.entry.requeued(now=self.now)
        else:
            self.entry = self.entry.requeued(now=self.now)
            self.looked = self.released = self.refusals = 0

    # What must hold after every step

    @invariant()
    def finished_is_for_good(self) -> None:
        if self.finished_before is not None:
            recording, status = self.finished_before
            assert self.recording == recording
            assert status is not FinalizeStatus.DONE or self.entry.status is FinalizeStatus.DONE
        if self.recording.terminal:
            self.finished_before = self.recording, self.entry.status

    @invariant()
    def done_means_that_the_recording_is_finished_and_everybody_was_told(self) -> None:
        if self.entry.status is FinalizeStatus.DONE:
            assert self.recording.terminal
            if self.recording.status is RecordingStatus.AVAILABLE:
                assert self.announced == 1

    @invariant()
    def nobody_is_told_twice_or_two_things(self) -> None:
        assert self.announced <= 1
        assert len(self.clients_told) <= 1
        if self.clients_told:
            told = isinstance(self.clients_told[0], RecordingAvailable)
            assert told is (self.recording.status is RecordingStatus.AVAILABLE)

    @invariant()
    def recording_is_lost_only_on_storages_own_word(self) -> None:
        assert not self.lost_though_there

    @invariant()
    def attempts_are_those_looks_that_were_not_given_back_and_bounded(self) -> None:
        attempts = self.entry.schedule.attempts
        assert attempts == self.looked - self.released + self.refusals
        assert attempts <= self.limits.max_attempts

    def teardown(self) -> None:
        """Healed, and given one more turn, every finalization converges."""
        self.fault = None
        if self.recording.session_ended_at is None and not self.recording.terminal:
            self._touch_recording(session_ended_at=self.now)
        if self.entry.status is not FinalizeStatus.DONE:
            self.entry = self.entry.requeued(now=self.now)
            self.looked = self.released = self.refusals = 0
        for _ in range(2):
            self.now += timedelta(hours=1)
            if self.entry.status is FinalizeStatus.PENDING:
                look = self._take(self._snapshot(), 0.0)
                if isinstance(look, Look):
                    self.runner_settles(look)
        assert self.recording.terminal
        assert self.entry.status is FinalizeStatus.DONE
        self.nobody_is_told_twice_or_two_things()
        self.done_means_that_the_recording_is_finished_and_everybody_was_told()

    # The store and storage

    def _touch_recording(self, **changes: object) -> None:
        version = self.recording.version + 1
        self.recording = evolve(self.recording, version=version, updated_at=self.now, **changes)  # type: ignore[arg-type]

    def _snapshot(self) -> FinalizeSnapshot:
        return FinalizeSnapshot(entry=self.entry, recording=self.recording, event_recorded=self.announced > 0)

    def _comes_due(self) -> bool:
        """Let time pass until the row is due, if ever it will be."""
        if self.entry.status is FinalizeStatus.PENDING:
            ended_at = self.recording.session_ended_at or NOW - SLA
            self.now = max(self.now, self.entry.schedule.next_attempt_at, ended_at + SLA)
        return self.entry.is_due(as_of=self.now)

    def _evidence(self) -> Evidence:
        if self.fault is not None:
            return self.fault
        if self.file_is_there:
            return found()
        return Empty() if self.looked % 2 else Missing()

    def _take(self, seen: FinalizeSnapshot, spread: float) -> MultipleResults[Look] | Look:
        verdict = open_attempt(seen, now=self.now, spread=spread, rules=self.limits)
        if not self._write(seen, verdict) or not isinstance(verdict, Claim):
            return multiple()
        self.looked += 1
        return Look(
            claimed=evolve(seen, entry=verdict.entry),
            given_back_to=seen.entry.schedule.next_attempt_at,
            evidence=self._evidence(),
        )

    def _write(self, seen: FinalizeSnapshot, verdict: Verdict) -> bool:
        """Write all of the verdict, or nothing when what it writes has moved since."""
        if self.entry != seen.entry:
            return False
        assert verdict.entry.version == self.entry.version + 1
        if isinstance(verdict, Adopt | TimeOut):
            if self.recording != seen.recording:
                return False
            assert verdict.recording.version == self.recording.version + 1
            self.recording = verdict.recording
        if isinstance(verdict, Adopt | Republish):
            self.announced += 1
        if isinstance(verdict, Adopt | Republish | TimeOut):
            self.clients_told.append(verdict.event)
        self.entry = verdict.entry
        return True


TestFinalizationLife = FinalizationLife.TestCase
