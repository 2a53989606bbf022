from __future__ import annotations

import pytest
from messenger_jobs.application.cycle_report import CycleEnd, Outcome
from messenger_jobs.application.rehearsal import Rehearsal, UncontendedRunLocks

from tests.support.builders import PROVISION_ID, RULES, a_failed_provision, a_provision, some_id
from tests.support.recordings import a_recording, an_entry
from tests.unit.application.deals import Deals
from tests.unit.application.uploads import Uploads


@pytest.fixture
def deals() -> Deals:
    return Deals()


def some_rows(deals: Deals) -> None:
    deals.put(
        a_provision(),
        a_provision(id=some_id(1000), deal_id=some_id(1001), members=()),
        a_provision(id=some_id(2000), deal_id=some_id(2001), members=(), attempts=RULES.max_attempts - 1),
    )


async def test_rehearsal_reports_what_the_cycle_then_does(deals: Deals) -> None:
    some_rows(deals)
    rehearsed = await deals.run(Rehearsal(deals.job), batch_size=2)
    assert deals.telemetry.batches == [2, 1]
    told = list(deals.telemetry.attempts)
    deals.telemetry.attempts.clear()
    report = await deals.run(deals.job, batch_size=2)
    assert (
        rehearsed.counts
        == report.counts
        == dict.fromkeys((Outcome.PROVISIONED, Outcome.RETRIED, Outcome.FAILED), 1)
    )
    assert [(row.outcome, row.subject["deal_id"], row.attempts, row.error_code) for row in told] == [
        (row.outcome, row.subject["deal_id"], row.attempts, row.error_code)
        for row in deals.telemetry.attempts
    ]


async def test_rehearsal_writes_and_locks_nothing(deals: Deals) -> None:
    some_rows(deals)
    await deals.run(Rehearsal(deals.job), batch_size=2)
    assert set(deals.operations()) == {"candidates"}
    assert deals.provision == a_provision()
    assert (deals.chats, deals.messages) == ([], [])


async def test_rehearsal_goes_past_the_lock_of_a_running_worker(deals: Deals) -> None:
    deals.put(a_provision())
    async with deals.locks.try_acquire(deals.job.name):
        deals.locks = UncontendedRunLocks()
        report = await deals.run(Rehearsal(deals.job))
    assert (report.end, report.counts) == (CycleEnd.COMPLETED, {Outcome.PROVISIONED: 1})


async def test_rehearsal_of_a_row_that_waits_says_nothing_of_it(deals: Deals) -> None:
    deals.put(a_failed_provision(attempts=RULES.max_attempts))
    assert (await deals.run(Rehearsal(deals.job))).counts == {}
    assert deals.provision.id == PROVISION_ID


async def test_rehearsal_of_recordings_reports_what_the_cycle_then_does() -> None:
    uploads = Uploads()
    uploads.put(a_recording(), an_entry())
    rehearsed = await uploads.run(Rehearsal(uploads.job))
    assert rehearsed.counts == {Outcome.FAILED: 1}
    assert uploads.entry == an_entry()
    assert (await uploads.run(uploads.job)).counts == rehearsed.counts


async def test_rehearsal_bears_the_name_of_its_job(deals: Deals) -> None:
    assert Rehearsal(deals.job).name == "chat-provision-retry"
