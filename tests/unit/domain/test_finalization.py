"""The tables of phases, evidence and storage errors, as the domain decides them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from attrs import evolve
from messenger_jobs.domain.call_recording import (
    CallRecording,
    FailureReason,
    RecordingAvailable,
    RecordingStatus,
)
from messenger_jobs.domain.errors import AttemptError, InvariantViolation
from messenger_jobs.domain.evidence import (
    Empty,
    Evidence,
    Missing,
    StorageMisconfigured,
    Unreachable,
    Unsupported,
)
from messenger_jobs.domain.finalization import (
    NEVER_SETTLED,
    RECORDING_MISSING,
    Adopt,
    Claim,
    Close,
    Defer,
    FinalizationRules,
    FinalizeSnapshot,
    Quarantine,
    Release,
    Republish,
    RetryLater,
    TimeOut,
    Verdict,
    open_attempt,
    refuse,
    release,
    settle,
)
from messenger_jobs.domain.recording_finalize import FinalizeStatus

from tests.support.builders import MICROSECOND, NOW
from tests.support.recordings import FINALIZATION_RULES as RULES
from tests.support.recordings import SLA, a_recording, an_entry, found, seen

GIVEN_BACK_TO = NOW - timedelta(minutes=4)
IN_PROGRESS = [RecordingStatus.RECORDING, RecordingStatus.UPLOADING]
POLL = timedelta(seconds=60)

EVIDENCE: dict[str, Evidence] = {
    "found": found(),
    "missing": Missing(),
    "empty": Empty(),
    "unsupported": Unsupported(code="UNKNOWN_CONTENT_TYPE"),
    "unreachable": Unreachable(code="TIMED_OUT", connection_failed=False),
    "misconfigured": StorageMisconfigured(code="NO_SUCH_BUCKET"),
}


def opened(snapshot: FinalizeSnapshot, *, spread: float = 0.0, rules: FinalizationRules = RULES) -> Verdict:
    return open_attempt(snapshot, now=NOW, spread=spread, rules=rules)


def settled(snapshot: FinalizeSnapshot, evidence: Evidence) -> Verdict:
    return settle(snapshot, evidence, given_back_to=GIVEN_BACK_TO, now=NOW, rules=RULES)


class TestPhases:
    def test_available_without_its_event_is_announced(self) -> None:
        available = a_recording(status=RecordingStatus.AVAILABLE)
        assert opened(seen(available)) == Republish(
            entry=an_entry().done(now=NOW), event=RecordingAvailable(recording=available)
        )

    def test_available_with_its_event_is_closed(self) -> None:
        snapshot = seen(a_recording(status=RecordingStatus.AVAILABLE), event_recorded=True)
        assert opened(snapshot) == Close(entry=an_entry().done(now=NOW))

    @pytest.mark.parametrize("event_recorded", [False, True])
    def test_failed_is_closed_without_a_word(self, event_recorded: bool) -> None:
        snapshot = seen(a_recording(status=RecordingStatus.FAILED), event_recorded=event_recorded)
        assert opened(snapshot) == Close(entry=an_entry().done(now=NOW))

    @pytest.mark.parametrize("status", [RecordingStatus.AVAILABLE, RecordingStatus.FAILED])
    def test_finished_recording_is_closed_however_many_attempts_there_were(
        self, status: RecordingStatus
    ) -> None:
        snapshot = seen(a_recording(status=status), an_entry(attempts=8), event_recorded=True)
        assert isinstance(opened(snapshot), Close)

    @pytest.mark.parametrize("status", IN_PROGRESS)
    @pytest.mark.parametrize("since", [SLA, SLA + MICROSECOND, timedelta(days=300)])
    def test_recording_whose_time_is_over_is_claimed(self, status: RecordingStatus, since: timedelta) -> None:
        recording = a_recording(status=status, session_ended_at=NOW - since)
        entry = an_entry(attempts=2)
        assert opened(seen(recording, entry), spread=0.5) == Claim(
            entry=entry.claimed(now=NOW, delay=timedelta(minutes=4) * 0.9)
        )

    @pytest.mark.parametrize("status", IN_PROGRESS)
    @pytest.mark.parametrize("since", [SLA - MICROSECOND, timedelta(0), -timedelta(minutes=5)])
    def test_recording_that_still_has_time_waits_for_its_end_uncounted(
        self, status: RecordingStatus, since: timedelta
    ) -> None:
        ended_at = NOW - since
        snapshot = seen(a_recording(status=status, session_ended_at=ended_at), an_entry(attempts=8))
        assert opened(snapshot) == Defer(entry=an_entry(attempts=8).deferred(until=ended_at + SLA, now=NOW))

    @pytest.mark.parametrize("status", IN_PROGRESS)
    def test_recording_of_a_session_that_goes_on_waits_for_the_next_poll(
        self, status: RecordingStatus
    ) -> None:
        verdict = opened(seen(a_recording(status=status, session_ended_at=None)))
        assert isinstance(verdict, Defer)
        assert verdict.entry.schedule.attempts == 0
        assert NOW < verdict.entry.schedule.next_attempt_at <= NOW + POLL
        assert verdict.entry.schedule.next_attempt_at == NOW + POLL / 2

    def test_recording_that_never_started_waits_for_the_next_poll(self) -> None:
        verdict = opened(seen(a_recording(status=RecordingStatus.PENDING)))
        assert verdict == Defer(entry=an_entry().deferred(until=NOW + POLL / 2, now=NOW))

    def test_missing_recording_counts_in_one_step(self) -> None:
        entry = an_entry(attempts=2)
        refused = entry.refused(RECORDING_MISSING, now=NOW, delay=timedelta(minutes=4), max_attempts=8)
        assert opened(seen(None, entry)) == RetryLater(entry=refused, error=RECORDING_MISSING)
        assert refused.version == entry.version + 1

    def test_missing_recording_ends_in_quarantine(self) -> None:
        verdict = opened(seen(None, an_entry(attempts=7)))
        assert isinstance(verdict, Quarantine)
        assert verdict.error == RECORDING_MISSING
        assert verdict.entry.schedule.attempts == 8

    @pytest.mark.parametrize("attempts", [8, 9])
    @pytest.mark.parametrize("recording", [a_recording(), None], ids=["there", "missing"])
    def test_row_whose_last_attempt_was_never_settled_is_not_tried_again(
        self, attempts: int, recording: CallRecording | None
    ) -> None:
        entry = an_entry(attempts=attempts)
        verdict = opened(seen(recording, entry))
        assert verdict == Quarantine(entry=entry.quarantined(NEVER_SETTLED, now=NOW), error=NEVER_SETTLED)

    def test_last_allowed_attempt_is_made(self) -> None:
        assert isinstance(opened(seen(a_recording(), an_entry(attempts=7))), Claim)

    @pytest.mark.parametrize("code", [str(RECORDING_MISSING), str(NEVER_SETTLED)])
    def test_codes_are_those_that_operators_know(self, code: str) -> None:
        assert code in {"FinalizeGuard:RECORDING_MISSING", "Finalize:ATTEMPT_NEVER_SETTLED"}

    @pytest.mark.parametrize(("attempts", "after"), [(7, 8), (8, 8)])
    def test_row_that_is_refused_never_has_more_attempts_than_allowed(
        self, attempts: int, after: int
    ) -> None:
        error = AttemptError("Postgres", "22003")
        verdict = refuse(an_entry(attempts=attempts), error, now=NOW, spread=0.0, rules=RULES)
        assert isinstance(verdict, Quarantine)
        assert verdict.error == error
        assert verdict.entry.status is FinalizeStatus.QUARANTINED
        assert verdict.entry.schedule.attempts == after
        assert verdict.entry.schedule.last_error == str(error)
        assert verdict.entry.updated_at == NOW


class TestEvidence:
    @pytest.mark.parametrize("status", IN_PROGRESS)
    def test_file_that_is_there_is_adopted(self, status: RecordingStatus) -> None:
        recording, entry = a_recording(status=status), an_entry(attempts=1)
        adopted, event = recording.became_available(recording.media_from(found()), now=NOW)
        assert settled(seen(recording, entry), found()) == Adopt(
            entry=entry.done(now=NOW), recording=adopted, event=event
        )

    @pytest.mark.parametrize("status", IN_PROGRESS)
    @pytest.mark.parametrize(
        ("evidence", "code"), [(Missing(), "NOT_FOUND"), (Empty(), "EMPTY_OBJECT")], ids=str
    )
    def test_file_that_is_not_there_is_lost(
        self, status: RecordingStatus, evidence: Evidence, code: str
    ) -> None:
        recording, entry = a_recording(status=status), an_entry(attempts=1)
        lost, event = recording.was_lost(FailureReason.TIMEOUT, now=NOW)
        assert settled(seen(recording, entry), evidence) == TimeOut(
            entry=entry.done(now=NOW, error=AttemptError("Storage", code)), recording=lost, event=event
        )

    def test_file_of_an_unknown_kind_is_quarantined_at_once(self) -> None:
        error = AttemptError("Storage", "UNKNOWN_CONTENT_TYPE")
        entry = an_entry(attempts=1)
        assert settled(seen(a_recording(), entry), EVIDENCE["unsupported"]) == Quarantine(
            entry=entry.quarantined(error, now=NOW), error=error
        )

    @pytest.mark.parametrize("connection_failed", [False, True])
    def test_no_answer_is_asked_for_again(self, connection_failed: bool) -> None:
        error = AttemptError("Storage", "TIMED_OUT")
        entry = an_entry(attempts=7)
        evidence = Unreachable(code="TIMED_OUT", connection_failed=connection_failed)
        assert settled(seen(a_recording(), entry), evidence) == RetryLater(
            entry=entry.retried(error, now=NOW), error=error
        )

    def test_no_answer_at_the_last_attempt_is_quarantined(self) -> None:
        error = AttemptError("Storage", "TIMED_OUT")
        entry = an_entry(attempts=8)
        assert settled(seen(a_recording(), entry), EVIDENCE["unreachable"]) == Quarantine(
            entry=entry.quarantined(error, now=NOW), error=error
        )

    @pytest.mark.parametrize("attempts", [1, 8])
    def test_configuration_fault_gives_the_claim_back(self, attempts: int) -> None:
        entry = an_entry(attempts=attempts)
        assert settled(seen(a_recording(), entry), EVIDENCE["misconfigured"]) == Release(
            entry=entry.released(next_attempt_at=GIVEN_BACK_TO, now=NOW),
            error=AttemptError("Storage", "NO_SUCH_BUCKET"),
        )

    @pytest.mark.parametrize("evidence", EVIDENCE)
    def test_recording_that_was_finished_meanwhile_is_left_as_it_is(self, evidence: str) -> None:
        entry = an_entry(attempts=8)
        available = a_recording(status=RecordingStatus.AVAILABLE)
        failed = a_recording(status=RecordingStatus.FAILED)
        done = entry.done(now=NOW)
        assert settled(seen(failed, entry), EVIDENCE[evidence]) == Close(entry=done)
        assert settled(seen(available, entry, event_recorded=True), EVIDENCE[evidence]) == Close(entry=done)
        assert settled(seen(available, entry), EVIDENCE[evidence]) == Republish(
            entry=done, event=RecordingAvailable(recording=available)
        )

    @pytest.mark.parametrize("evidence", EVIDENCE)
    @pytest.mark.parametrize(("attempts", "verdict"), [(7, RetryLater), (8, Quarantine)])
    def test_recording_that_vanished_meanwhile_counts_as_missing(
        self, evidence: str, attempts: int, verdict: type[RetryLater] | type[Quarantine]
    ) -> None:
        outcome = settled(seen(None, an_entry(attempts=attempts)), EVIDENCE[evidence])
        assert isinstance(outcome, verdict)
        assert outcome.error == RECORDING_MISSING
        assert outcome.entry.updated_at == NOW

    def test_outage_gives_the_claim_back(self) -> None:
        entry, error = an_entry(attempts=8), AttemptError("Storage", "CONNECTION_REFUSED")
        assert release(entry, error, given_back_to=GIVEN_BACK_TO, now=NOW) == Release(
            entry=entry.released(next_attempt_at=GIVEN_BACK_TO, now=NOW), error=error
        )


class TestRules:
    def test_defaults(self) -> None:
        rules = FinalizationRules()
        assert (rules.max_attempts, rules.finalize_sla_timeout, rules.poll) == (8, SLA, POLL)

    def test_bounds(self) -> None:
        assert FinalizationRules(max_attempts=1, finalize_sla_timeout=timedelta(0)).max_attempts == 1
        with pytest.raises(InvariantViolation):
            FinalizationRules(max_attempts=0)
        with pytest.raises(InvariantViolation):
            FinalizationRules(finalize_sla_timeout=-MICROSECOND)

    def test_time_of_zero_asks_storage_as_soon_as_the_session_ended(self) -> None:
        rules = evolve(RULES, finalize_sla_timeout=timedelta(0))
        assert isinstance(opened(seen(a_recording(session_ended_at=NOW)), rules=rules), Claim)
