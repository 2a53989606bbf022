"""The worker's loop: lock, cadence, trouble, pruning."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from messenger_jobs.adapters.memory.outbox_queue import MemoryOutboxQueue
from messenger_jobs.adapters.memory.switch import Phase
from messenger_jobs.application.cycle_report import CycleEnd
from messenger_jobs.application.options import OutboxRelayOptions
from messenger_jobs.application.outbox_relay import OUTBOX_RELAY, PRUNE_BATCHES
from messenger_jobs.application.ports.errors import DatabaseUnavailable, Misconfigured, PortError
from messenger_jobs.application.ports.event_publisher import NotPublished
from messenger_jobs.application.prune_outbox import PRUNE_BATCH
from messenger_jobs.application.trouble import TroubleKind

from tests.support.builders import NOW
from tests.support.outbox_rows import a_dead_row, a_published_row, an_outbox_row
from tests.unit.application.relays import OUTAGE, REFUSED, TOO_LARGE, RelayBench, settle

GONE = DatabaseUnavailable("CONNECTION_LOST", "the connection to the database failed")
REFUSES_US = Misconfigured("Kafka:AUTHENTICATION", "the broker refuses the credentials")
OPTIONS = OutboxRelayOptions()
WEEK = timedelta(days=7)


@pytest.fixture
def bench() -> RelayBench:
    return RelayBench()


def told(bench: RelayBench, *kinds: str) -> list[str]:
    return [call for call in bench.telemetry.calls if call in kinds]


# Cadence


async def test_message_is_published_within_one_poll_of_its_commit(bench: RelayBench) -> None:
    async with bench.running():
        await bench.pass_time(10.5)
        bench.commit(1)
        await bench.pass_time(0.4)
        assert bench.publisher.log == []
        await bench.pass_time(0.1)
        assert bench.publisher.log == [1]


async def test_passes_start_every_polling_interval_however_long_they_take(bench: RelayBench) -> None:
    async with bench.running():
        bench.commit(1, 2)
        bench.publisher.after = [bench.passing(timedelta(seconds=0.7))]
        await bench.pass_time(5)
    starts = [(report.started_at - NOW).total_seconds() for report in bench.telemetry.passes]
    assert starts == pytest.approx([0, 1, 2, 3, 4, 5])


async def test_lock_is_got_once_and_kept_over_many_passes(bench: RelayBench) -> None:
    async with bench.running():
        await bench.pass_time(200)
        assert bench.server.held == [OUTBOX_RELAY]
    assert bench.lock_steps("acquire lock") == 1
    assert len(bench.telemetry.passes) > 190
    # Asked for when half the TTL has passed, and not at every poll.
    assert 3 <= bench.lock_steps("confirm lock") <= 5


async def test_longest_polling_interval_does_not_lose_the_lock(bench: RelayBench) -> None:
    options = OutboxRelayOptions(polling_interval=timedelta(hours=1))
    bench.server.ttl = options.lock_ttl
    bench.relay = bench.a_relay(options=options)
    async with bench.running():
        await bench.pass_time(timedelta(days=1).total_seconds())
    assert bench.lock_steps("acquire lock") == 1
    assert "lock_lost" not in bench.telemetry.calls


async def test_pass_that_reached_its_limit_is_followed_at_once() -> None:
    bench = RelayBench(batch_size=2)
    async with bench.running():
        bench.commit(*range(1, 101))
        await bench.pass_time(1)
        await settle(2000)
        assert len(bench.publisher.log) == 100
    assert [(report.published, report.more) for report in bench.telemetry.passes[:4]] == [
        (0, False),
        (40, True),
        (40, True),
        (20, False),
    ]


async def test_messages_held_back_do_not_count_towards_the_limit_of_a_pass() -> None:
    bench = RelayBench(batch_size=2)
    bench.commit(*range(1, 201), key="a")
    bench.commit(201)
    bench.publisher.answers[1] = [REFUSED] * 3
    async with bench.running():
        await settle(2000)
        assert bench.publisher.log == [201]


# The lock


async def test_relay_stands_by_calmly_while_another_one_holds_the_lock(bench: RelayBench) -> None:
    bench.commit(1)
    async with bench.locked_by_another(), bench.running():
        await bench.pass_time(14)
        assert bench.lock_steps("acquire lock") == 3
        assert bench.publisher.log == []
    assert set(bench.telemetry.calls) == {"standing_by"}


async def test_relay_takes_over_soon_after_the_other_one_is_gone(bench: RelayBench) -> None:
    other = bench.replica()
    async with other.running() as others_loop, bench.running():
        others_loop.cancel()
        await settle()
        bench.commit(1)
        await bench.pass_time(5)
        assert bench.publisher.log == [1]
        assert bench.telemetry.lock_held


async def test_lost_lock_is_told_and_got_again(bench: RelayBench) -> None:
    async with bench.running():
        bench.server.end_session(OUTBOX_RELAY)
        bench.commit(1)
        await bench.pass_time(2)
        assert bench.publisher.log == [1]
    assert told(bench, "lock_lost") == ["lock_lost"]
    assert bench.lock_steps("acquire lock") == 2
    assert bench.telemetry.began == []


async def test_hung_relay_loses_its_lock_and_notices(bench: RelayBench) -> None:
    async with bench.running():
        bench.clock.advance(OPTIONS.lock_ttl)
        await settle()
        assert [report.end for report in bench.telemetry.passes] == [
            CycleEnd.COMPLETED,
            CycleEnd.LOCK_LOST,
        ]


# Trouble


async def test_broker_that_is_down_is_asked_more_and_more_rarely_and_told_of_once(
    bench: RelayBench,
) -> None:
    bench.commit(1)
    bench.publisher.every = OUTAGE
    async with bench.running():
        await bench.pass_time(95)
        starts = [(report.started_at - NOW).total_seconds() for report in bench.telemetry.passes]
        assert starts == pytest.approx([0, 1, 3, 7, 15, 31, 61, 91])
        assert bench.telemetry.troubles == [TroubleKind.BROKER]
        assert bench.server.held == []
        bench.publisher.every = None
        await bench.pass_time(30)
        assert bench.publisher.log == [1]
        assert [trouble.kind for trouble in bench.telemetry.ended] == [TroubleKind.BROKER]
        assert (bench.row(1).attempts, bench.row(1).last_error) == (0, None)
        await bench.pass_time(60)
    assert len(bench.telemetry.ended) == 1


async def test_backoff_starts_over_after_trouble(bench: RelayBench) -> None:
    bench.commit(1)
    bench.publisher.every = OUTAGE
    async with bench.running():
        await bench.pass_time(20)
        bench.publisher.every = None
        await bench.pass_time(30)
        bench.commit(2)
        bench.publisher.every = OUTAGE
        await bench.pass_time(8)
    starts = [report.started_at for report in bench.telemetry.passes if report.trouble is not None][-4:]
    assert [(start - starts[0]).total_seconds() for start in starts] == pytest.approx([0, 1, 3, 7])
    assert bench.telemetry.troubles == [TroubleKind.BROKER] * 2


async def test_wait_in_trouble_is_shortened_by_the_spread(bench: RelayBench) -> None:
    bench.relay = bench.a_relay(spread=lambda: 0.5)
    bench.commit(1)
    bench.publisher.every = OUTAGE
    async with bench.running():
        await bench.pass_time(3)
    starts = [(report.started_at - NOW).total_seconds() for report in bench.telemetry.passes]
    assert starts == pytest.approx([0, 0.9, 2.7])


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (GONE, TroubleKind.DATABASE),
        (REFUSES_US, TroubleKind.CONFIGURATION),
        (ValueError("a defect"), TroubleKind.DEFECT),
        (asyncio.CancelledError(), TroubleKind.DEFECT),
    ],
)
@pytest.mark.parametrize("where", ["lock", "reading", "broker"])
async def test_loop_outlives_whatever_fails_and_recovers(
    bench: RelayBench, error: BaseException, kind: TroubleKind, where: str
) -> None:
    bench.commit(1)
    for _ in range(3):
        if where == "lock":
            bench.lock_switch.at("acquire lock", Phase.SENT, error)
        elif where == "reading":
            bench.switch.at("unpublished", Phase.SENT, error)
        else:
            bench.publisher.before.append(error)
    async with bench.running() as loop:
        await bench.pass_time(7)
        assert not loop.done()
        assert bench.publisher.log == [1]
    code = error.code if isinstance(error, PortError) else f"Defect:{type(error).__name__}"
    (began,) = bench.telemetry.began
    assert (began.kind, began.code, type(began.error)) == (kind, code, type(error))
    assert [trouble.kind for trouble in bench.telemetry.ended] == [kind]
    told_by_run = zip(bench.telemetry.calls, bench.telemetry.runs_of_calls, strict=True)
    assert [run_id.int for call, run_id in told_by_run if call == "trouble_began"] == [1_000_000]
    assert bench.row(1).attempts == 0


async def test_trouble_of_another_kind_is_told(bench: RelayBench) -> None:
    bench.commit(1)
    bench.publisher.every = OUTAGE
    async with bench.running():
        bench.lock_switch.at("acquire lock", Phase.SENT, GONE)
        await bench.pass_time(30)
    assert bench.telemetry.troubles == [TroubleKind.BROKER, TroubleKind.DATABASE, TroubleKind.BROKER]
    assert bench.telemetry.ended == []


async def test_outage_with_another_code_is_the_same_outage(bench: RelayBench) -> None:
    bench.commit(1)
    bench.publisher.answers[1] = [OUTAGE, NotPublished(code="Kafka:TIMEOUT", outage=True)]
    async with bench.running():
        await bench.pass_time(10)
    assert bench.telemetry.troubles == [TroubleKind.BROKER]
    assert bench.publisher.log == [1]


async def test_outage_gives_the_lock_to_a_replica_that_reaches_the_broker(bench: RelayBench) -> None:
    other = bench.replica()
    other.publisher = type(other.publisher)()
    other.relay = other.a_relay()
    bench.publisher.every = OUTAGE
    bench.commit(1)
    async with bench.running(), other.running():
        await bench.pass_time(6)
        assert other.publisher.log == [1]
        assert bench.published == [1]


async def test_two_replicas_in_the_same_outage_tell_of_it_once_each(bench: RelayBench) -> None:
    other = bench.replica()
    bench.commit(1)
    bench.publisher.every = OUTAGE
    async with bench.running(), other.running():
        await bench.pass_time(120)
    assert len(bench.telemetry.began) == len(other.telemetry.began) == 1
    assert bench.telemetry.ended == other.telemetry.ended == []


async def test_key_that_fails_again_and_again_is_tried_more_and_more_rarely(bench: RelayBench) -> None:
    bench.commit(1, 2, key="a")
    bench.publisher.answers[1] = [REFUSED] * 100
    async with bench.running():
        for number in range(3, 40):
            bench.commit(number)
            await bench.pass_time(1)
        assert len(bench.publisher.log) == 37
    assert bench.row(1).attempts == 6  # at 0, 1, 3, 7, 15 and 31 s
    assert bench.row(2).attempts == 0
    assert bench.telemetry.began == []


async def test_key_that_recovered_starts_over(bench: RelayBench) -> None:
    bench.commit(1, 2, key="a")
    bench.publisher.answers[1] = [REFUSED] * 3
    bench.publisher.answers[2] = [REFUSED]
    async with bench.running():
        await bench.pass_time(8.5)
    assert bench.publisher.log == [1, 2]


async def test_wait_that_ends_in_the_middle_of_a_pass_lets_no_follower_overtake() -> None:
    bench = RelayBench(batch_size=1)
    bench.commit(1, 3, key="a")
    bench.publisher.answers[1] = [REFUSED] * 2  # so that it waits from 1 s to 3 s
    async with bench.running():
        await bench.pass_time(1.5)
        bench.commit(2)
        bench.publisher.after = [bench.passing(timedelta(seconds=1.5))]
        await bench.pass_time(4)
    assert bench.publisher.log == [2, 1, 3]


async def test_everything_is_told_of_the_run_it_belongs_to(bench: RelayBench) -> None:
    bench.put(a_published_row(9, at=NOW - WEEK - timedelta(days=1)))
    bench.commit(1, 2, 3)
    bench.publisher.answers[1] = [REFUSED]
    bench.publisher.answers[2] = [TOO_LARGE]
    bench.lock_switch.at("acquire lock", Phase.SENT, GONE)
    async with bench.running():
        await bench.pass_time(1.5)
        bench.server.end_session(OUTBOX_RELAY)
        bench.commit(4)
        async with bench.locked_by_another():
            await bench.pass_time(2)
    by_run: dict[int, list[str]] = {}
    for name, run_id in zip(bench.telemetry.calls, bench.telemetry.runs_of_calls, strict=True):
        by_run.setdefault(run_id.int, []).append(name)
    assert by_run == {
        1_000_000: ["trouble_began"],
        1_000_001: [
            "lock_acquired",
            "message_failed",
            "message_parked",
            "pass_finished",
            "trouble_ended",
            "pruned",
            "lock_lost",
            "pass_finished",
            "lock_released",
        ],
        1_000_002: ["standing_by"],
    }


# Stopping


async def test_stop_wakes_the_sleep_and_frees_the_lock(bench: RelayBench) -> None:
    async with bench.running() as loop:
        await bench.pass_time(3.5)
        bench.stop.request()
        await settle()
        assert loop.done()
    assert bench.server.held == []
    assert bench.clock.time_to_next is None
    assert not bench.telemetry.lock_held


@pytest.mark.parametrize("state", ["standing by", "outage"])
async def test_stop_wakes_the_wait_for_the_next_turn(bench: RelayBench, state: str) -> None:
    bench.commit(1)
    bench.publisher.every = OUTAGE
    async with bench.locked_by_another(state == "standing by"), bench.running() as loop:
        await bench.pass_time(0.5)
        bench.stop.request()
        await settle()
        assert loop.done()


@pytest.mark.parametrize(("answer_after", "published"), [(9.0, [1]), (11.0, [])])
async def test_stop_waits_for_receipts_but_not_for_long(
    bench: RelayBench, answer_after: float, published: list[int]
) -> None:
    bench.commit(1, 2, key="a")
    bench.publisher.after = [lambda: bench.clock.sleep(answer_after)]
    others = asyncio.all_tasks()
    async with bench.running() as loop:
        bench.stop.request()
        await bench.pass_time(10)
        assert loop.done()
    assert bench.publisher.sent == [[1]]
    assert bench.published == published
    assert asyncio.all_tasks() == others
    assert bench.telemetry.passes[-1].end is CycleEnd.STOPPED
    assert bench.telemetry.began == []


@pytest.mark.parametrize(("marking_takes", "published"), [(0.25, [1]), (3.0, [])])
async def test_stop_waits_for_receipts_and_for_their_marks_no_longer_together(
    bench: RelayBench, marking_takes: float, published: list[int]
) -> None:
    bench.commit(1)
    bench.publisher.after = [lambda: bench.clock.sleep(9.5)]
    bench.switch.at("mark published", Phase.SENT, lambda: bench.clock.sleep(marking_takes))
    async with bench.running() as loop:
        bench.stop.request()
        await bench.pass_time(10)
        assert loop.done()
    assert bench.published == published
    assert bench.database.open_transactions == 0


async def test_stop_before_the_start_means_no_pass(bench: RelayBench) -> None:
    bench.stop.request()
    bench.commit(1)
    async with bench.running() as loop:
        assert loop.done()
    assert bench.publisher.sent == []


async def test_cancellation_leaves_nothing(bench: RelayBench) -> None:
    others = asyncio.all_tasks()
    async with bench.running() as loop:
        await bench.pass_time(2.5)
        loop.cancel()
        with pytest.raises(asyncio.CancelledError):
            await loop
    assert asyncio.all_tasks() == others
    assert (bench.server.held, bench.database.open_transactions) == ([], 0)
    assert bench.clock.time_to_next is None


@pytest.mark.parametrize("state", ["idle", "standing by", "outage", "at work"])
async def test_signs_of_life_come_within_the_patience(bench: RelayBench, state: str) -> None:
    if state == "outage":
        bench.commit(1)
        bench.publisher.every = OUTAGE
    bench.server.ttl = timedelta(days=1)
    if state == "at work":
        bench.commit(*range(1, 11), key="a")
        bench.publisher.after = [bench.passing(OPTIONS.send_timeout)] * 10
    async with bench.locked_by_another(state == "standing by"), bench.running():
        await bench.pass_time(300)
        beats = [0.0, *bench.beats, bench.clock.monotonic()]
    gaps = [later - earlier for earlier, later in pairwise(beats)]
    assert max(gaps) < OPTIONS.patience.total_seconds()


# Pruning


async def test_messages_published_long_ago_are_pruned_and_no_others(bench: RelayBench) -> None:
    kept = [a_published_row(2, at=NOW - WEEK), an_outbox_row(3), a_dead_row(4)]
    bench.put(a_published_row(1, at=NOW - WEEK - timedelta(seconds=1)), *kept)
    async with bench.running():
        assert sorted(bench.rows()) == [2, 3, 4]
    assert bench.telemetry.prunings == [1]


async def test_pruning_is_looked_for_once_a_minute(bench: RelayBench) -> None:
    async with bench.running():
        bench.put(a_published_row(1, at=NOW - WEEK - timedelta(days=1)))
        await bench.pass_time(59)
        assert sorted(bench.rows()) == [1]
        await bench.pass_time(1)
        assert bench.rows() == {}
    prunings = [step for step in bench.switch.steps if step.operation == "prune"]
    assert len(prunings) == 2 * 2


async def test_pruning_is_bounded_and_goes_on_after_the_next_pass(bench: RelayBench) -> None:
    many = PRUNE_BATCH * PRUNE_BATCHES
    old = [many + 2]

    class Queue(MemoryOutboxQueue):
        async def prune(self, *, published_before: datetime, limit: int) -> int:
            assert published_before == bench.clock.now() - WEEK
            pruned = min(limit, *old)
            old[0] -= pruned
            return pruned

    bench.relay = bench.a_relay(queue=Queue(bench.database))
    async with bench.running():
        assert old == [2]
        await bench.pass_time(1)
        assert old == [0]
    assert bench.telemetry.prunings == [many, 2]


async def test_stop_while_messages_are_pruned_begins_no_other_batch(bench: RelayBench) -> None:
    limits: list[int] = []

    class Queue(MemoryOutboxQueue):
        async def prune(self, *, published_before: datetime, limit: int) -> int:
            bench.stop.request()
            limits.append(limit)
            return limit

    bench.relay = bench.a_relay(queue=Queue(bench.database))
    async with bench.running() as loop:
        assert loop.done()
    assert limits == [PRUNE_BATCH]
    assert bench.telemetry.prunings == [PRUNE_BATCH]


async def test_pruning_that_fails_is_trouble_and_comes_again(bench: RelayBench) -> None:
    bench.put(a_published_row(1, at=NOW - WEEK - timedelta(days=1)))
    bench.switch.at("prune", Phase.SENT, GONE)
    async with bench.running():
        assert bench.telemetry.troubles == [TroubleKind.DATABASE]
        await bench.pass_time(2)
        assert bench.rows() == {}
    assert len(bench.telemetry.ended) == 1


async def test_relay_that_stands_by_prunes_nothing(bench: RelayBench) -> None:
    bench.put(a_published_row(1, at=NOW - WEEK - timedelta(days=1)))
    async with bench.locked_by_another(), bench.running():
        await bench.pass_time(1)
        assert sorted(bench.rows()) == [1]


async def test_pruning_leaves_a_lease_that_is_to_be_confirmed_to_the_next_pass(bench: RelayBench) -> None:
    bench.put(a_published_row(1, at=NOW - WEEK - timedelta(days=1)))
    bench.commit(2)
    bench.publisher.after = [bench.passing(OPTIONS.lock_ttl / 2)]
    async with bench.running():
        await bench.pass_time(1)
        operations = [step.operation for step in bench.switch.steps]
    assert operations[: operations.index("prune")].count("newest id") == 2 * 2
    assert sorted(bench.rows()) == [2]


# Crashes


@pytest.mark.parametrize(
    "crash_at",
    [
        lambda bench, crash: bench.publisher.before.append(crash),
        lambda bench, crash: bench.switch.at("mark published", Phase.SENT, crash),
    ],
    ids=["before the broker", "before the mark"],
)
async def test_what_a_crashed_relay_did_not_mark_is_published_by_the_next_one(
    bench: RelayBench, crash_at: Callable[[RelayBench, Callable[[], object]], None]
) -> None:
    other = bench.replica()
    bench.commit(1, 2, key="a")
    never = asyncio.Event()
    crash_at(bench, never.wait)  # as a process that is gone: it never goes on
    async with bench.running(), other.running():
        bench.server.end_session(OUTBOX_RELAY)
        await bench.pass_time(10)
        assert bench.published == [1, 2]
        assert list(dict.fromkeys(bench.publisher.log)) == [1, 2]
        never.set()
        await settle()
