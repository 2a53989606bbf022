from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest
from aiokafka import TopicPartition  # type: ignore[import-untyped]  # ships no types
from aiokafka.errors import (  # type: ignore[import-untyped]  # ships no types
    CommitFailedError,
    GroupAuthorizationFailedError,
    KafkaConnectionError,
    KafkaError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    UnsupportedCodecError,
)
from attrs import define, field
from messenger_jobs.adapters.kafka.deal_created_consumer import DealCreatedConsumer
from messenger_jobs.adapters.kafka.deal_created_session import SessionTimes
from messenger_jobs.adapters.memory.switch import Phase
from messenger_jobs.application.ports.errors import Misconfigured
from messenger_jobs.application.stop_signal import StopSignal

from tests.support.eventually import eventually
from tests.unit.kafka.consumers import BACKOFF, ConsumerBench, FakeRecord, a_record

TIMES = SessionTimes(join=0.05, answer=0.05, probe_interval=3600, close_grace=0.05)

Act = Callable[[], Awaitable[object]]


@define(eq=False)
class FakeClient:
    """A member of the group, to be told what happens in it. Its log holds everything that was asked of it."""

    starting: Exception | Act | None = None
    assigned: Sequence[int] = (0,)
    records: dict[int, list[FakeRecord]] = field(factory=dict[int, list[FakeRecord]])
    said: list[Exception] = field(factory=list[Exception])
    fetch_failure: Exception | None = None
    commit_failure: Exception | Act | None = None
    probe: Act | None = None
    log: list[str] = field(factory=list[str])
    listener: Any = None
    left: bool = False

    def subscribe(self, topics: Sequence[str], *, listener: Any) -> None:
        self.log.append(f"subscribe {topics[0]}")
        self.listener = listener

    async def start(self) -> None:
        await perform(self.starting)
        await self.listener.on_partitions_revoked(set())
        await self.assign(*self.assigned)

    async def assign(self, *partitions: int) -> None:
        await self.listener.on_partitions_assigned({TopicPartition("topic", one) for one in partitions})

    async def revoke(self) -> None:
        await self.listener.on_partitions_revoked(set())
        self.log.append("revoked")

    async def stop(self) -> None:
        self.left = True
        self.log.append("stop")

    async def getmany(
        self, *places: TopicPartition, timeout_ms: int, max_records: int | None = None
    ) -> Mapping[TopicPartition, Sequence[FakeRecord]]:
        (place,) = places
        await asyncio.sleep(0.001 if place.partition >= 0 else 0.02)  # who has nothing to fetch waits longest
        if place.partition == -1 and self.said:
            raise self.said.pop(0)
        if place.partition >= 0:
            await perform(self.fetch_failure)
        found = self.records.get(place.partition, [])[:max_records]
        if found:
            del self.records[place.partition][: len(found)]
            return {place: found}
        return {}

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        await perform(self.commit_failure)
        self.log += [f"commit {place.partition}:{offset}" for place, offset in offsets.items()]

    async def committed(self, place: TopicPartition) -> int | None:
        del place
        await perform(self.probe)
        return None


async def perform(what: Exception | Act | None) -> None:
    if isinstance(what, Exception):
        raise what
    if what is not None:
        await what()


async def never() -> None:
    await asyncio.Event().wait()


@define(eq=False)
class Run:
    """A consumer whose memberships are `clients`, one after the other; the last one for ever."""

    clients: list[FakeClient]
    bench: ConsumerBench = field(factory=ConsumerBench)
    stop: StopSignal = field(factory=StopSignal)
    times: SessionTimes = TIMES
    beats: int = 0
    made: int = 0

    def start(self) -> asyncio.Task[None]:
        bench = self.bench
        consumer = DealCreatedConsumer(
            new_client=self._client,
            provision=bench.provision,
            dead_letters=bench.dead_letters,
            telemetry=bench.telemetry,
            clock=bench.deals.clock,
            new_id=bench.deals.new_id,
            spread=lambda: 0.0,
            topic="topic",
            backoff=BACKOFF,
            times=self.times,
        )
        return asyncio.create_task(consumer.run(self.stop, beat=self._beat))

    def _client(self) -> FakeClient:
        client = self.clients[min(self.made, len(self.clients) - 1)]
        self.made += 1
        return client

    def _beat(self) -> None:
        self.beats += 1

    async def until(self, holds: Callable[[], bool]) -> None:
        await eventually(holds)

    async def end(self, task: asyncio.Task[None]) -> None:
        self.stop.request()
        async with asyncio.timeout(30):
            await task


async def test_partitions_are_handled_and_left_in_good_order() -> None:
    client = FakeClient(assigned=(0, 1), records={0: [a_record(0), a_record(1)], 1: [a_record(5)]})
    run = Run([client])
    task = run.start()
    await run.until(lambda: len(run.bench.handled) == 3)
    await run.end(task)
    assert sorted(client.log[1:-1]) == ["commit 0:2", "commit 1:6"]
    assert (client.log[0], client.log[-1]) == ("subscribe topic", "stop")
    assert run.bench.telemetry.assignments == [{0, 1}, set()]
    assert run.bench.telemetry.troubles == []


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        pytest.param(ConnectionRefusedError(), "broker", "CONNECTION_REFUSED", id="refused"),
        pytest.param(KafkaConnectionError(), "broker", "CONNECTION_LOST", id="lost"),
        pytest.param(never, "broker", "TIMED_OUT", id="silent"),
        pytest.param(KafkaError("odd"), "broker", "REFUSED", id="odd"),
        pytest.param(
            Misconfigured("CA_FILE_UNUSABLE", "a file"), "configuration", "CA_FILE_UNUSABLE", id="file"
        ),
        pytest.param(GroupAuthorizationFailedError("g"), "configuration", "GROUP_REFUSED", id="group"),
        pytest.param(TopicAuthorizationFailedError("t"), "configuration", "TOPIC_REFUSED", id="topic"),
        pytest.param(UnknownTopicOrPartitionError(), "configuration", "UNKNOWN_TOPIC", id="no topic"),
        pytest.param(UnsupportedCodecError(), "configuration", "CODEC_MISSING", id="codec"),
        pytest.param(ZeroDivisionError(), "defect", "Defect:ZeroDivisionError", id="defect"),
    ],
)
async def test_failure_to_join_is_told_once_and_tried_again_after_growing_waits(
    error: Exception | Act, kind: str, code: str
) -> None:
    failing = [FakeClient(starting=error) for _ in range(3)]
    run = Run([*failing, FakeClient(records={0: [a_record(0)]})])
    task = run.start()
    waits: list[timedelta | None] = []
    for _ in failing:
        await run.until(lambda: run.bench.deals.clock.time_to_next is not None)
        waits.append(run.bench.deals.clock.time_to_next)
        run.bench.wake()
    await run.until(lambda: run.bench.handled == [0])
    await run.until(lambda: run.bench.telemetry.trouble_changes[-1][0] == "ended")
    await run.end(task)
    assert waits == [timedelta(minutes=minutes) for minutes in (1, 2, 4)]
    assert run.bench.telemetry.trouble_changes == [("began", kind), ("ended", kind)]
    assert run.bench.telemetry.troubles[0][1].code == code
    assert len(run.bench.telemetry.defects) == (3 if kind == "defect" else 0)
    assert all(client.left for client in failing)


async def test_what_the_client_says_of_the_group_ends_the_membership_and_a_new_one_goes_on() -> None:
    first = FakeClient(said=[KafkaError("the coordinator is confused")], records={0: [a_record(0)]})
    run = Run([first, FakeClient(records={0: [a_record(1)]})])
    task = run.start()
    await run.until(lambda: run.bench.deals.clock.time_to_next is not None)
    assert first.left
    run.bench.wake()
    await run.until(lambda: 1 in run.bench.handled)
    await run.until(lambda: run.bench.telemetry.trouble_changes[-1][0] == "ended")
    await run.end(task)
    assert run.bench.telemetry.trouble_changes == [("began", "broker"), ("ended", "broker")]


async def test_topic_that_cannot_be_read_is_told_once_although_the_group_lets_us_join_each_time() -> None:
    failing = [FakeClient(fetch_failure=UnsupportedCodecError()) for _ in range(3)]
    run = Run([*failing, FakeClient(records={0: [a_record(0)]})])
    task = run.start()
    waits: list[timedelta | None] = []
    for _ in failing:
        await run.until(lambda: run.bench.deals.clock.time_to_next is not None)
        waits.append(run.bench.deals.clock.time_to_next)
        run.bench.wake()
    await run.until(lambda: run.bench.telemetry.trouble_changes[-1][0] == "ended")
    await run.end(task)
    assert waits == [timedelta(minutes=minutes) for minutes in (1, 2, 4)]
    assert run.bench.telemetry.trouble_changes == [("began", "configuration"), ("ended", "configuration")]


@pytest.mark.parametrize("how", [never, KafkaConnectionError()], ids=["no answer", "error"])
async def test_commit_without_an_answer_ends_the_membership_and_nothing_is_lost(how: Exception | Act) -> None:
    first = FakeClient(commit_failure=how, records={0: [a_record(0)]})
    second = FakeClient(records={0: [a_record(0), a_record(1)]})
    run = Run([first, second])
    task = run.start()
    await run.until(lambda: run.bench.deals.clock.time_to_next is not None)
    run.bench.wake()
    await run.until(lambda: "commit 0:2" in second.log)
    await run.end(task)
    assert [outcome.value for outcome in run.bench.telemetry.outcomes] == [
        "provisioned",
        "duplicate",
        "provisioned",
    ]


async def test_commit_of_a_partition_that_is_another_ones_by_now_is_no_failure() -> None:
    client = FakeClient(commit_failure=CommitFailedError("rebalanced"), records={0: [a_record(0)]})
    run = Run([client])
    task = run.start()
    await run.until(lambda: run.bench.handled == [0])
    await run.end(task)
    assert (run.made, run.bench.telemetry.troubles) == (1, [])


async def test_broker_that_does_not_answer_is_noticed_without_any_message() -> None:
    silent = FakeClient(probe=never)
    run = Run([silent, FakeClient()])
    task = run.start()
    await run.until(lambda: run.bench.telemetry.trouble_changes == [("began", "broker")])
    run.bench.wake()
    await run.until(lambda: run.bench.telemetry.trouble_changes[-1] == ("ended", "broker"))
    await run.end(task)
    assert silent.left


async def test_partition_that_is_taken_away_is_committed_before_it_is_handed_over() -> None:
    client = FakeClient(records={0: [a_record(0), a_record(1)]})
    run = Run([client], times=SessionTimes(close_grace=30.0, probe_interval=3600))
    revoked: list[asyncio.Task[None]] = []
    run.bench.deals.switch.at(
        "settle", Phase.SENT, lambda: revoked.append(asyncio.create_task(client.revoke()))
    )
    task = run.start()
    await run.until(lambda: "revoked" in client.log)
    assert run.bench.handled == [0]
    assert client.log.index("commit 0:1") < client.log.index("revoked")
    client.records[1] = [a_record(7)]
    await client.assign(1)
    await run.until(lambda: run.bench.handled == [0, 7])
    await run.end(task)
    assert run.bench.telemetry.assignments == [{0}, {1}, set()]


async def test_message_in_hand_that_takes_too_long_is_rolled_back_when_its_partition_is_taken_away() -> None:
    client = FakeClient(records={0: [a_record(0)]})
    run = Run([client])
    in_hand = asyncio.Event()

    async def hang() -> None:
        in_hand.set()
        await never()

    run.bench.deals.switch.at("settle", Phase.SENT, hang)
    task = run.start()
    await in_hand.wait()
    await client.revoke()
    assert (run.bench.handled, run.bench.deals.database.open_transactions) == ([], 0)
    assert not any(entry.startswith("commit") for entry in client.log)
    await run.end(task)


async def test_stop_is_bounded_by_the_grace_of_the_message_in_hand() -> None:
    client = FakeClient(records={0: [a_record(0)]})
    run = Run([client])
    run.bench.deals.switch.at("settle", Phase.SENT, never)
    task = run.start()
    await run.until(lambda: run.bench.deals.database.open_transactions == 1)
    await run.end(task)
    assert (run.bench.handled, run.bench.deals.database.open_transactions) == ([], 0)
    assert client.left


@pytest.mark.parametrize("when", ["joining", "waiting after a failure"])
async def test_stop_does_not_wait_for(when: str) -> None:
    client = FakeClient(starting=never if when == "joining" else KafkaConnectionError())
    run = Run([client], times=SessionTimes())
    task = run.start()
    if when != "joining":
        await run.until(lambda: run.bench.deals.clock.time_to_next is not None)
    await asyncio.sleep(0.01)
    await run.end(task)
    assert client.left


async def test_cancellation_rolls_back_at_once_and_leaves_the_group() -> None:
    client = FakeClient(records={0: [a_record(0)]})
    run = Run([client], times=SessionTimes())  # whose grace is not waited for
    run.bench.deals.switch.at("settle", Phase.SENT, never)
    task = run.start()
    await run.until(lambda: run.bench.deals.database.open_transactions == 1)
    task.cancel()
    await asyncio.wait({task}, timeout=5)  # which, unlike awaiting it, cancels nothing a second time
    assert task.cancelled()
    assert run.bench.deals.database.open_transactions == 0
    assert (client.left, run.bench.handled) == (True, [])


async def test_cancellation_during_the_grace_of_a_stop_ends_it() -> None:
    client = FakeClient(records={0: [a_record(0)]})
    run = Run([client], times=SessionTimes())
    run.bench.deals.switch.at("settle", Phase.SENT, never)
    task = run.start()
    await run.until(lambda: run.bench.deals.database.open_transactions == 1)
    run.stop.request()
    await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.wait({task}, timeout=5)  # which, unlike awaiting it, cancels nothing a second time
    assert task.cancelled()
    assert (client.left, run.bench.deals.database.open_transactions) == (True, 0)


async def test_consumer_beats_while_it_has_nothing_to_do_and_while_nothing_goes() -> None:
    run = Run([FakeClient(starting=KafkaConnectionError()), FakeClient()])
    task = run.start()
    await run.until(lambda: run.bench.deals.clock.time_to_next is not None)
    before = run.beats
    assert before >= 1
    run.bench.wake()
    await run.until(lambda: run.beats > before + 3)
    await run.end(task)


async def test_no_lane_is_opened_once_the_consumer_leaves() -> None:
    client = FakeClient()
    run = Run([client])
    task = run.start()
    await run.until(lambda: bool(run.bench.telemetry.assignments))
    await run.end(task)
    client.records[0] = [a_record(0)]
    await client.assign(0)
    await asyncio.sleep(0.02)
    assert run.bench.handled == []
