"""What people do all the while: deals are created, calls end, uploads are confirmed."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID, uuid4

import psycopg
import urllib3
from attrs import define, field
from confluent_kafka import Producer
from messenger_jobs.adapters.kafka.deal_created_dead_letter import DEAL_CREATED_TOPIC
from messenger_jobs.adapters.postgres.connection_pool import PooledConnections, connection_pool
from messenger_jobs.adapters.postgres.finalization_store import PostgresFinalizationStore
from messenger_jobs.adapters.system.clock import SystemClock
from messenger_jobs.application.announce_recording import Announcer
from messenger_jobs.application.finalize_uploaded_recording import FinalizeUploadedRecording
from messenger_jobs.application.ports.errors import PortError
from messenger_jobs.domain.evidence import RecordingFormat
from minio.error import MinioException

from tests.contract.finalization_postgres_harness import columns_of, upsert
from tests.soak.surroundings import Surroundings
from tests.support.deal_created_messages import a_message
from tests.support.media_files import SECONDS, media_file
from tests.support.recordings import a_recording, an_entry

GARBAGE: Final = 0.02
"""Of the messages; no JSON."""
REPEATED: Final = 0.05
STUCK: Final = 0.3
"""Of the deals stand in the table before their message comes, as after a consumer that died."""
LOST: Final = 0.2
"""Of the recordings have no file."""
CONFIRMED: Final = 0.3
"""Of the recordings with a file are confirmed by their upload, at the same time as the job looks at them."""

_STUCK_DEAL: Final = (
    "with p as (insert into messenger.deal_chat_provisions"
    " (id, deal_id, title, next_attempt_at, created_at, updated_at)"
    " values (gen_random_uuid(), %s, 'Flat', now() - interval '1 hour', now() - interval '1 hour',"
    " now() - interval '1 hour') on conflict do nothing returning id)"
    " insert into messenger.deal_chat_provision_members select id, gen_random_uuid(), 'Buyer' from p"
)


@define(eq=False)
class Traffic:
    """Goes on until it is stopped; whatever cannot be done just now is done later, as by anybody who has an outbox."""

    there: Surroundings
    chance: random.Random
    deals: set[UUID] = field(factory=set[UUID])
    with_file: set[UUID] = field(factory=set[UUID])
    without_file: set[UUID] = field(factory=set[UUID])
    garbage: set[bytes] = field(factory=set[bytes])
    confirmations: int = 0
    _stopped: bool = False
    _producer: Producer = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": self.there.kafka.bootstrap_servers,
                "message.timeout.ms": 300_000,
                "enable.idempotence": True,
                "log_level": 0,
            }
        )

    def stop(self) -> None:
        """No further deals and calls."""
        self._stopped = True

    async def run(self) -> None:
        """Until stopped; returns when everything begun is done."""
        async with connection_pool(self.there.url, size=4) as pool:
            clock = SystemClock()
            confirm = FinalizeUploadedRecording(
                store=PostgresFinalizationStore(PooledConnections(pool)),
                announcer=Announcer(clock=clock, new_id=uuid4),
                clock=clock,
            )
            while not self._stopped:
                await self._create_deals()
                await self._end_a_call(confirm)
                await asyncio.sleep(0.1)
        assert await asyncio.to_thread(self._producer.flush, 120) == 0

    async def _create_deals(self) -> None:
        for _ in range(self.chance.randint(0, 6)):
            deal_id = uuid4()
            if self.chance.random() < STUCK:
                await _until_done(self._store_stuck, deal_id)
            self.deals.add(deal_id)
            value = a_message(deal_id, event_id=uuid4(), title="Flat")
            for _ in range(1 + (self.chance.random() < REPEATED)):
                self._send(value, key=str(deal_id).encode())
            if self.chance.random() < GARBAGE:
                nonsense = b"{" + self.chance.randbytes(12)
                self.garbage.add(nonsense)
                self._send(nonsense, key=None)

    def _send(self, value: bytes, *, key: bytes | None) -> None:
        self._producer.produce(DEAL_CREATED_TOPIC, value=value, key=key)
        self._producer.poll(0)

    def _store_stuck(self, deal_id: UUID) -> None:
        with psycopg.connect(self.there.url, connect_timeout=5) as connection:
            connection.execute(_STUCK_DEAL, (deal_id,))

    async def _end_a_call(self, confirm: FinalizeUploadedRecording) -> None:
        recording_id, has_file = uuid4(), self.chance.random() >= LOST
        if has_file:
            await _until_done(self._upload, recording_id)
        (self.with_file if has_file else self.without_file).add(recording_id)
        await _until_done(self._store_call, recording_id)
        if has_file and self.chance.random() < CONFIRMED:
            await self._confirm(confirm, recording_id)

    def _upload(self, recording_id: UUID) -> None:
        media = media_file(RecordingFormat.WEBM)
        self.there.bucket.put(_object_key(recording_id), media.content, media.content_type)

    def _store_call(self, recording_id: UUID) -> None:
        now = datetime.now(UTC)
        ended_at = now - timedelta(hours=1)
        recording = a_recording(
            id=recording_id,
            session_id=uuid4(),
            object_key=_object_key(recording_id),
            started_at=ended_at - timedelta(seconds=SECONDS),
            ended_at=ended_at,
            session_ended_at=ended_at,
            updated_at=now,
        )
        entry = an_entry(
            id=uuid4(),
            recording_id=recording_id,
            session_id=recording.session_id,
            next_attempt_at=now,
            created_at=now,
        )
        with psycopg.connect(self.there.url, connect_timeout=5) as connection:
            for thing in (recording, entry):
                connection.execute(*upsert(*columns_of(thing)))

    async def _confirm(self, confirm: FinalizeUploadedRecording, recording_id: UUID) -> None:
        with suppress(PortError):  # the callback that is lost
            await confirm(
                recording_id,
                file_id=uuid4(),
                size_bytes=4_096,
                duration_seconds=SECONDS,
                format=RecordingFormat.WEBM,
                correlation_id=uuid4(),
            )
            self.confirmations += 1


def _object_key(recording_id: UUID) -> str:
    return f"calls/{recording_id}.webm"


async def _until_done(work: object, id_: UUID) -> None:
    """Again and again, while a server is away; ``work`` may be repeated."""
    while True:
        try:
            await asyncio.to_thread(work, id_)  # type: ignore[arg-type]  # a method that takes an id
        except (psycopg.OperationalError, MinioException, urllib3.exceptions.HTTPError, OSError):
            await asyncio.sleep(0.2)
        else:
            return
