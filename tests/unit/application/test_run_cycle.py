from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import get_args

import pytest
from messenger_jobs.adapters.memory.switch import Phase
from messenger_jobs.application.cycle_report import Cycle, CycleEnd, CycleReport, Outcome
from messenger_jobs.application.ports.errors import DatabaseUnavailable, Misconfigured, RowRolledBack

from tests.support.builders import NOW, some_id
from tests.support.interruption import Moment, interrupt
from tests.unit.application.cycles import JOB, MAX_RUN, TTL, Bench, ScriptedJob
from tests.unit.application.traces import RememberedSpans, Span

DEADLOCK = RowRolledBack("40P01", "deadlock detected")
GONE = DatabaseUnavailable("CONNECTION_LOST", "the connection to the database failed")
NO_TABLE = Misconfigured("42P01", "a table is missing")
HALF_TTL = TTL / 2


@pytest.fixture
def bench() -> Bench:
    return Bench()


# Reading


async def test_every_row_is_tried_once_in_order(bench: Bench) -> None:
    job = ScriptedJob(rows=5)
    report = await bench.run(job, batch_size=2)
    assert job.finished == [1, 2, 3, 4, 5]
    assert report.cycle == Cycle(job=JOB, run_id=some_id(1_000_000), as_of=NOW)
    assert report.end is CycleEnd.COMPLETED
    assert report.counts == {Outcome.PROVISIONED: 5}


async def test_batches_are_read_behind_the_last_row_of_the_one_before(bench: Bench) -> None:
    job = ScriptedJob(rows=5)
    await bench.run(job, batch_size=2)
    assert job.readings == [(NOW, None, 2), (NOW, 2, 2), (NOW, 4, 2)]
    assert bench.telemetry.batches == [2, 2, 1]


async def test_time_of_selection_stays_that_of_the_cycles_start(bench: Bench) -> None:
    bench.clock.advance(timedelta(minutes=1))
    job = ScriptedJob(rows=4, script={1: bench.passing(timedelta(seconds=50))})
    report = await bench.run(job, batch_size=2)
    assert {as_of for as_of, _, _ in job.readings} == {NOW + timedelta(minutes=1)}
    assert report.duration == timedelta(seconds=50)


async def test_short_batch_is_the_last_one(bench: Bench) -> None:
    job = ScriptedJob(rows=1)
    await bench.run(job, batch_size=2)
    assert len(job.readings) == 1


async def test_full_last_batch_takes_one_more_reading(bench: Bench) -> None:
    job = ScriptedJob(rows=4)
    report = await bench.run(job, batch_size=2)
    assert len(job.readings) == 3
    assert bench.telemetry.batches == [2, 2]
    assert report.end is CycleEnd.COMPLETED


@pytest.mark.parametrize("lanes", [1, 3])
async def test_empty_table_costs_one_reading(bench: Bench, lanes: int) -> None:
    job = ScriptedJob(rows=0)
    report = await bench.run(job, lanes=lanes)
    assert len(job.readings) == 1
    assert bench.telemetry.calls == ["cycle_started", "cycle_completed"]
    assert report.counts == {}


# Failing rows


@pytest.mark.parametrize(
    "failure", [DEADLOCK, ValueError("a defect"), ExceptionGroup("several", [OSError()])]
)
async def test_rows_that_fail_at_the_head_do_not_starve_the_rows_behind_them(
    bench: Bench, failure: Exception
) -> None:
    job = ScriptedJob(rows=9, script=dict.fromkeys(range(1, 9), failure))
    report = await bench.run(job, batch_size=3)
    assert job.started == list(range(1, 10))
    assert job.finished == [9]
    assert report.end is CycleEnd.COMPLETED
    assert report.counts == {Outcome.ROLLED_BACK: 8, Outcome.PROVISIONED: 1}


async def test_infrastructure_and_defects_are_told_apart(bench: Bench) -> None:
    defect = ValueError("a defect")
    await bench.run(ScriptedJob(rows=3, script={1: DEADLOCK, 2: defect}))
    assert bench.telemetry.rollbacks == [DEADLOCK]
    assert bench.telemetry.defects == [defect]
    assert bench.telemetry.rows_in_trouble == [some_id(1), some_id(2)]
    assert bench.telemetry.outcomes == [Outcome.PROVISIONED]


async def test_cycle_gives_up_when_three_rows_in_a_row_find_the_database_gone(bench: Bench) -> None:
    job = ScriptedJob(rows=9, script=dict.fromkeys(range(2, 10), GONE))
    report = await bench.run(job, batch_size=2)
    assert job.started == [1, 2, 3, 4]
    assert (report.end, report.error_code) == (CycleEnd.ABORTED, "CONNECTION_LOST")
    assert report.counts == {Outcome.PROVISIONED: 1, Outcome.ROLLED_BACK: 3}
    assert bench.telemetry.rollbacks == [GONE] * 3
    assert bench.telemetry.abortions == ["CONNECTION_LOST"]
    assert bench.telemetry.configuration_faults == []


@pytest.mark.parametrize("between", [None, DEADLOCK, ValueError("a defect")])
async def test_any_other_end_of_a_row_shows_that_the_database_is_there(
    bench: Bench, between: Exception | None
) -> None:
    script: dict[int, Exception] = {1: GONE, 2: GONE, 4: GONE, 5: GONE}
    if between is not None:
        script[3] = between
    job = ScriptedJob(rows=6, script=script)
    report = await bench.run(job)
    assert job.started == [1, 2, 3, 4, 5, 6]
    assert report.end is CycleEnd.COMPLETED


async def test_misconfiguration_ends_the_cycle_with_an_alert(bench: Bench) -> None:
    job = ScriptedJob(rows=9, script={2: NO_TABLE})
    report = await bench.run(job)
    assert job.started == [1, 2]
    assert (report.end, report.error_code) == (CycleEnd.ABORTED, "42P01")
    assert report.counts == {Outcome.PROVISIONED: 1, Outcome.ROLLED_BACK: 1}
    assert bench.telemetry.configuration_faults == [NO_TABLE]


@pytest.mark.parametrize("last", [NO_TABLE, GONE, DEADLOCK, ValueError("a defect")])
async def test_every_row_that_is_as_before_counts(bench: Bench, last: Exception) -> None:
    report = await bench.run(ScriptedJob(rows=2, script={1: DEADLOCK, 2: last}))
    assert report.counts == {Outcome.ROLLED_BACK: 2}


async def test_attempts_show_within_their_cycle_and_say_what_they_came_to(bench: Bench) -> None:
    spans = RememberedSpans()
    report = await bench.run(ScriptedJob(rows=2, script={2: DEADLOCK}), tracing=spans)
    (reported,) = bench.telemetry.attempts
    assert spans.attempts == [
        Span(report.cycle, within=report.cycle, report=reported),
        Span(report.cycle, within=report.cycle, report=None),
    ]
    assert spans.open_cycle is None


async def test_misconfiguration_is_told_once_however_many_rows_find_it(bench: Bench) -> None:
    all_in_hand = asyncio.Barrier(4)

    async def fail() -> None:
        await all_in_hand.wait()
        raise NO_TABLE

    job = ScriptedJob(rows=9, script=dict.fromkeys(range(1, 10), fail))
    await bench.run(job, lanes=4)
    assert job.started == [1, 2, 3, 4]
    assert len(bench.telemetry.configuration_faults) == len(bench.telemetry.abortions) == 1


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (GONE, "CONNECTION_LOST"),
        (DEADLOCK, "40P01"),
        (NO_TABLE, "42P01"),
        (ValueError("x"), "Defect:ValueError"),
    ],
)
async def test_batch_that_cannot_be_read_ends_the_cycle(bench: Bench, failure: Exception, code: str) -> None:
    job = ScriptedJob(rows=4, reading=[lambda: None, failure])
    report = await bench.run(job, batch_size=2, lanes=2)
    assert sorted(job.finished) == [1, 2]
    assert len(job.readings) == 2
    assert (report.end, report.error_code) == (CycleEnd.ABORTED, code)
    assert len(bench.telemetry.configuration_faults) == isinstance(failure, Misconfigured)
    assert len(bench.telemetry.defects) == isinstance(failure, ValueError)
    assert bench.server.held == []


async def test_rows_in_hand_are_finished_when_the_next_batch_cannot_be_read(bench: Bench) -> None:
    failed = asyncio.Event()

    async def fail() -> None:
        failed.set()
        raise GONE

    job = ScriptedJob(rows=4, script={2: failed.wait}, reading=[lambda: None, fail])
    report = await bench.run(job, batch_size=2, lanes=2)
    assert sorted(job.finished) == [1, 2]
    assert report.end is CycleEnd.ABORTED


@pytest.mark.parametrize(
    ("script", "reading"),
    [
        ({1: DEADLOCK, 2: ValueError("a defect")}, ()),
        (dict.fromkeys((1, 2, 3), GONE), ()),
        ({2: NO_TABLE}, ()),
        ({}, (ValueError("a defect"),)),
    ],
    ids=["rows", "outage", "misconfiguration", "reading"],
)
async def test_whatever_goes_wrong_is_told_of_its_cycle(
    bench: Bench, script: dict[int, Exception], reading: tuple[Exception, ...]
) -> None:
    report = await bench.run(ScriptedJob(rows=3, script=script, reading=[*reading]))
    assert set(bench.telemetry.cycles) == {report.cycle}


async def test_defect_that_keeps_a_batch_from_being_read_is_told(bench: Bench) -> None:
    defect = ValueError("a defect")
    await bench.run(ScriptedJob(rows=3, reading=[defect]))
    assert bench.telemetry.defects == [defect]


# The run lock


async def test_cycle_is_skipped_when_somebody_else_holds_the_lock(bench: Bench) -> None:
    job = ScriptedJob(rows=3)
    async with bench.locks.try_acquire(JOB):
        report = await bench.run(job)
    cycle = Cycle(job=JOB, run_id=some_id(1_000_000), as_of=NOW)
    assert report == CycleReport(cycle=cycle, end=CycleEnd.SKIPPED, duration=timedelta(0))
    assert bench.telemetry.skipped == [cycle]
    assert (job.readings, job.started) == ([], [])
    assert bench.telemetry.calls == ["cycle_skipped"]


async def test_lock_is_free_after_the_cycle(bench: Bench) -> None:
    await bench.run(ScriptedJob(rows=3))
    assert bench.server.held == []


@pytest.mark.parametrize("phase", Phase)
async def test_lock_whose_server_cannot_be_asked_aborts_the_cycle(bench: Bench, phase: Phase) -> None:
    bench.lock_switch.at("acquire lock", phase, GONE)
    job = ScriptedJob(rows=3)
    report = await bench.run(job)
    assert (report.end, report.error_code) == (CycleEnd.ABORTED, "CONNECTION_LOST")
    assert job.readings == []
    assert bench.telemetry.calls == ["cycle_aborted", "cycle_completed"]
    assert bench.server.held == []


async def test_lock_is_confirmed_before_every_batch(bench: Bench) -> None:
    await bench.run(ScriptedJob(rows=5), batch_size=2)
    asked = [step.operation for step in bench.lock_switch.steps if step.phase is Phase.SENT]
    assert asked == ["acquire lock", *["confirm lock"] * 3, "release lock"]


async def test_lock_lost_before_a_batch_ends_the_cycle(bench: Bench) -> None:
    job = ScriptedJob(rows=4, script={2: lambda: bench.server.end_session(JOB)})
    report = await bench.run(job, batch_size=2)
    assert job.finished == [1, 2]
    assert report.end is CycleEnd.LOCK_LOST
    assert bench.telemetry.locks_lost == [report.cycle]


@pytest.mark.parametrize("phase", Phase)
async def test_confirmation_without_an_answer_is_a_lost_lock(bench: Bench, phase: Phase) -> None:
    bench.lock_switch.at("confirm lock", phase, GONE)
    job = ScriptedJob(rows=4)
    report = await bench.run(job)
    assert report.end is CycleEnd.LOCK_LOST
    assert job.readings == []


async def test_lease_that_expired_in_the_middle_of_a_batch_ends_the_cycle(bench: Bench) -> None:
    job = ScriptedJob(rows=4, script={2: bench.passing(TTL)})
    report = await bench.run(job, max_run_duration=2 * TTL)
    assert job.finished == [1, 2]
    assert report.end is CycleEnd.LOCK_LOST
    assert bench.telemetry.calls[-2:] == ["lock_lost", "cycle_completed"]


async def test_lease_that_expired_by_our_own_clock_ends_the_cycle_whatever_the_server_says(
    bench: Bench,
) -> None:
    class Lease:
        expired = False
        confirmation_due = False

        async def confirm(self) -> bool:
            return True

    class Locks:
        @asynccontextmanager
        async def try_acquire(self, name: str) -> AsyncGenerator[Lease]:
            del name
            yield lease

    def expire() -> None:
        lease.expired = lease.confirmation_due = True

    lease, bench.locks = Lease(), Locks()
    job = ScriptedJob(rows=4, script={2: expire})
    assert (await bench.run(job)).end is CycleEnd.LOCK_LOST
    assert job.finished == [1, 2]


async def test_lock_is_confirmed_by_half_of_its_ttl_within_a_batch(bench: Bench) -> None:
    job = ScriptedJob(rows=9, script={row: bench.passing(HALF_TTL) for row in range(1, 9)})
    report = await bench.run(job, max_run_duration=99 * TTL)
    assert report.end is CycleEnd.COMPLETED
    assert job.finished == list(range(1, 10))
    confirmations = [step for step in bench.lock_switch.steps if step.operation == "confirm lock"]
    assert len(confirmations) == 2 * (1 + 8)


async def test_lock_lost_within_a_batch_is_noticed_by_half_of_its_ttl(bench: Bench) -> None:
    def lose() -> None:
        bench.server.end_session(JOB)
        bench.clock.advance(HALF_TTL)

    job = ScriptedJob(rows=4, script={2: lose})
    report = await bench.run(job, max_run_duration=TTL)
    assert job.finished == [1, 2]
    assert report.end is CycleEnd.LOCK_LOST


async def test_one_of_several_lanes_asks_for_the_lock(bench: Bench) -> None:
    job = ScriptedJob(rows=20, script={row: bench.passing(HALF_TTL / 3) for row in (1, 2, 3)})
    report = await bench.run(job, lanes=4)
    confirmations = [step for step in bench.lock_switch.steps if step.operation == "confirm lock"]
    assert len(confirmations) == 2 * 2
    assert (report.end, len(job.finished)) == (CycleEnd.COMPLETED, 20)


async def test_lock_lost_is_told_once_by_several_lanes(bench: Bench) -> None:
    job = ScriptedJob(rows=20, script={row: bench.passing(TTL / 4) for row in (1, 2, 3, 4)})
    await bench.run(job, lanes=4, max_run_duration=9 * TTL)
    assert len(bench.telemetry.locks_lost) == 1
    assert sorted(job.finished) == [1, 2, 3, 4]


# Deadline and stop


async def test_cycle_ends_when_its_time_is_over_and_finishes_the_row_in_hand(bench: Bench) -> None:
    job = ScriptedJob(rows=9, script={3: bench.passing(MAX_RUN)})
    report = await bench.run(job, batch_size=2)
    assert job.finished == [1, 2, 3]
    assert report.end is CycleEnd.OUT_OF_TIME
    assert report.duration == MAX_RUN


async def test_row_is_still_started_just_before_the_time_is_over(bench: Bench) -> None:
    job = ScriptedJob(rows=3, script={2: bench.passing(MAX_RUN - timedelta(microseconds=1))})
    report = await bench.run(job, batch_size=5)
    assert job.finished == [1, 2, 3]
    assert report.end is CycleEnd.COMPLETED


async def test_stop_lets_the_rows_in_hand_finish_and_starts_no_other(bench: Bench) -> None:
    job = ScriptedJob(rows=20, script={5: bench.stop.request})
    report = await bench.run(job, lanes=3)
    assert sorted(job.started) == sorted(job.finished)
    assert set(job.started) <= set(range(1, 8))
    assert report.end is CycleEnd.STOPPED
    assert bench.server.held == []


async def test_stop_before_the_cycle_reads_nothing(bench: Bench) -> None:
    bench.stop.request()
    job = ScriptedJob(rows=3)
    assert (await bench.run(job)).end is CycleEnd.STOPPED
    assert job.readings == []


async def test_stop_while_a_batch_is_read_starts_no_row(bench: Bench) -> None:
    job = ScriptedJob(rows=3, reading=[bench.stop.request])
    assert (await bench.run(job)).end is CycleEnd.STOPPED
    assert job.started == []


async def test_stop_while_the_lock_is_confirmed_starts_no_row(bench: Bench) -> None:
    job = ScriptedJob(rows=3, script={1: bench.passing(HALF_TTL)})
    bench.lock_switch.at("confirm lock", Phase.ANSWERED, lambda: None)
    bench.lock_switch.at("confirm lock", Phase.ANSWERED, bench.stop.request)
    report = await bench.run(job)
    assert job.started == [1]
    assert report.end is CycleEnd.STOPPED


@pytest.mark.parametrize("ending", ["stop", "deadline", "expiry"])
async def test_cycle_whose_last_row_is_done_has_completed_whatever_comes_then(
    bench: Bench, ending: str
) -> None:
    def end() -> None:
        if ending == "stop":
            bench.stop.request()
        else:
            bench.clock.advance(MAX_RUN if ending == "deadline" else TTL)

    report = await bench.run(ScriptedJob(rows=3, script={3: end}), batch_size=5, max_run_duration=MAX_RUN)
    assert report.end is CycleEnd.COMPLETED
    assert bench.telemetry.locks_lost == []


# Concurrency and cancellation


@pytest.mark.parametrize("lanes", [1, 2, 4, 7])
async def test_no_more_rows_are_in_hand_than_allowed(bench: Bench, lanes: int) -> None:
    async def linger() -> None:
        for _ in range(50):
            await asyncio.sleep(0)

    job = ScriptedJob(rows=20, script=dict.fromkeys(range(1, 21), linger))
    await bench.run(job, batch_size=6, lanes=lanes)
    assert job.most_in_hand == lanes
    assert sorted(job.finished) == list(range(1, 21))


async def test_one_slow_row_does_not_hold_up_the_other_lane(bench: Bench) -> None:
    done = asyncio.Event()
    job = ScriptedJob(rows=9, script={1: done.wait, 9: done.set})
    await bench.run(job, batch_size=2, lanes=2)
    assert job.finished == [*range(2, 10), 1]


async def test_every_row_is_tried_once_by_many_lanes(bench: Bench) -> None:
    job = ScriptedJob(rows=50)
    report = await bench.run(job, batch_size=7, lanes=5)
    assert sorted(job.started) == list(range(1, 51))
    assert report.counts == {Outcome.PROVISIONED: 50}


@pytest.mark.parametrize("lanes", [1, 3])
async def test_cancellation_reaches_the_rows_in_hand_and_leaves_nothing(bench: Bench, lanes: int) -> None:
    others = asyncio.all_tasks()
    all_in_hand = asyncio.Barrier(lanes + 1)

    async def hang() -> None:
        await all_in_hand.wait()
        await asyncio.Event().wait()

    job = ScriptedJob(rows=9, script=dict.fromkeys(range(1, 10), hang))
    cycle = asyncio.create_task(bench.run(job, lanes=lanes))
    await all_in_hand.wait()
    cycle.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cycle
    assert sorted(job.cancelled) == job.started == list(range(1, lanes + 1))
    assert bench.server.held == []
    assert asyncio.all_tasks() == others
    assert bench.telemetry.abortions == ["Cancelled"]
    assert set(bench.telemetry.cycles) == {*bench.telemetry.started}
    assert "cycle_completed" not in bench.telemetry.calls


@pytest.mark.parametrize("moment", get_args(Moment))
async def test_cancelled_anywhere_the_lock_is_free_and_no_task_is_left(moment: Moment) -> None:
    for step in range(1, 100):
        others = asyncio.all_tasks()
        bench = Bench()
        reached = await interrupt(bench.run(ScriptedJob(rows=3), batch_size=2), at=step, moment=moment)
        assert bench.server.held == []
        assert asyncio.all_tasks() == others
        if not reached:
            assert step > 3
            return
    pytest.fail("the cycle has no end")


@pytest.mark.parametrize("lanes", [1, 3])
async def test_cancellation_of_a_jobs_own_making_is_a_defect_of_that_row(bench: Bench, lanes: int) -> None:
    cancellation = asyncio.CancelledError()
    job = ScriptedJob(rows=5, script={2: cancellation})
    report = await bench.run(job, lanes=lanes)
    assert sorted(job.finished) == [1, 3, 4, 5]
    assert bench.telemetry.defects == [cancellation]
    assert report.end is CycleEnd.COMPLETED


async def test_next_batch_is_read_while_the_last_rows_of_this_one_are_in_hand(bench: Bench) -> None:
    job = ScriptedJob(rows=20)
    read_meanwhile: list[bool] = []

    async def take_long() -> None:
        for _ in range(200):
            await asyncio.sleep(0)
        read_meanwhile.append(len(job.readings) == 2)

    job.script = {9: take_long, 10: take_long}
    await bench.run(job, batch_size=10, lanes=2)
    assert read_meanwhile == [True, True]
    assert sorted(job.finished) == list(range(1, 21))
