"""Real workers, real servers, real faults, for as long as wanted: ``python -m tests.soak --seconds 1800``.

Two workers run under traffic while something is done to them, or to what they stand on, every few seconds. Then
everything is healed and must come to rest: no backlog, every event at the broker in the order of its key, and nothing
that must never happen.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections.abc import Callable, Iterator
from uuid import UUID

import psycopg
from confluent_kafka import Consumer, TopicPartition
from messenger_jobs.adapters.kafka.deal_created_dead_letter import (
    DEAL_CREATED_GROUP,
    DEAL_CREATED_TOPIC,
    dead_letter_topic,
)

from tests.e2e.outbox import Outbox, arrived
from tests.soak.surroundings import PARTITIONS, Surroundings, surroundings
from tests.soak.traffic import Traffic
from tests.support.kafka_log import records_of
from tests.support.processes import run

_HEALED_WITHIN = 240.0  # seconds

_AT_REST = """
select (select count(*) from messenger.deal_chat_provisions where status <> 'Ready')
    + (select count(*) from messenger.recording_finalize_attempts where status <> 'Done')
    + (select count(*) from messenger.outbox_messages where published_at is null)
"""


def say(text: str) -> None:
    """Tell at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def soak(seconds: float, seed: int) -> list[str]:
    """What was wrong in the end; nothing, if all is well. Raises when something does not come to rest."""
    chance = random.Random(seed)
    async with surroundings(chance) as there:
        traffic = Traffic(there, random.Random(seed + 1))
        running = asyncio.create_task(traffic.run())
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            await there.pause(1, 5)
            await there.fault()
            if running.done():
                break
        traffic.stop()
        await running
        say(f"faults: {', '.join(f'{name} {number}' for name, number in sorted(there.done.items()))}")
        say(
            f"deals: {len(traffic.deals)}, recordings: {len(traffic.with_file)} with and {len(traffic.without_file)} "
            f"without a file, uploads confirmed: {traffic.confirmations}, garbage: {len(traffic.garbage)}"
        )
        started = time.monotonic()
        await until(lambda: waiting(there) == 0, "no row waits and every event is published")
        await until(lambda: unread(there) == 0, "every message is read")
        say(f"at rest after {time.monotonic() - started:.0f} s")
        codes = [await asyncio.to_thread(replica.stop) for replica in there.replicas]
        return [f"a worker ended with {code}" for code in codes if code] + [*wrong(there, traffic)]


async def until(holds: Callable[[], bool], what: str) -> None:
    """Wait for it; servers that recover may refuse to say."""
    deadline = time.monotonic() + _HEALED_WITHIN
    while True:
        try:
            if await asyncio.to_thread(holds):
                return
        except psycopg.OperationalError:
            pass
        if time.monotonic() > deadline:
            raise AssertionError(f"it did not come to hold that {what}")
        await asyncio.sleep(0.5)


def waiting(there: Surroundings) -> int:
    """Rows with something left to do."""
    with psycopg.connect(there.url) as connection:
        row = connection.execute(_AT_REST).fetchone()
    assert row is not None
    return int(row[0])


def unread(there: Surroundings) -> int:
    """Messages that the consumers have not committed."""
    group = {
        "bootstrap.servers": there.kafka.bootstrap_servers,
        "group.id": DEAL_CREATED_GROUP,
        "log_level": 0,
    }
    consumer = Consumer(group)
    try:
        places = [TopicPartition(DEAL_CREATED_TOPIC, number) for number in range(PARTITIONS)]
        committed = [max(0, place.offset) for place in consumer.committed(places, timeout=30)]
        ends = [consumer.get_watermark_offsets(place, timeout=30)[1] for place in places]
        return sum(ends) - sum(committed)
    finally:
        consumer.close()


def wrong(there: Surroundings, traffic: Traffic) -> Iterator[str]:
    """Everything that is not as it must be."""
    with psycopg.connect(there.url) as connection:
        chats = connection.execute("select deal_id from messenger.chats").fetchall()
        recordings: dict[UUID, str] = dict(
            connection.execute("select id, status from messenger.call_recordings").fetchall()
        )
    if sorted(deal_id for (deal_id,) in chats) != sorted(traffic.deals):
        yield f"{len(traffic.deals)} deals have {len(chats)} chats"
    for status, ids in (("Available", traffic.with_file), ("Failed", traffic.without_file)):
        others = [id_ for id_ in ids if recordings.get(id_) != status]
        if others:
            yield f"{len(others)} recordings should be {status}, such as {others[0]}: {recordings.get(others[0])}"
    broker = there.kafka.bootstrap_servers
    letters = {record.value for record in records_of(broker, dead_letter_topic(DEAL_CREATED_TOPIC))}
    if letters != traffic.garbage:
        yield f"of {len(traffic.garbage)} messages without sense {len(letters & traffic.garbage)} were set aside"
    # Statuses only: recordings have a key, and an event, of their own each.
    sent = {
        key: ids
        for key, ids in Outbox(there.url).committed().items()
        if key in {str(id_) for id_ in traffic.deals}
    }
    if arrived(broker).first != sent:
        yield "the events that arrived are not those that were committed, in their order"
    audited = run(there.url, "audit")
    if audited.returncode:
        yield audited.stderr.strip()


def main() -> int:
    """0 when nothing was wrong, 1 otherwise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=120.0, help="how long faults happen")
    parser.add_argument("--seed", type=int, default=None, help="for the same faults in the same order")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(2**32)
    say(f"{options.seconds:.0f} s of faults with --seed {seed}")
    problems = asyncio.run(soak(options.seconds, seed))
    for problem in problems:
        say(f"WRONG: {problem}")
    say("something went wrong" if problems else "nothing was lost, nothing was done twice")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
