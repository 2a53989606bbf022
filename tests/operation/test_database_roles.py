"""Least privilege: each group of deploy/postgres/ can do its work, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import psycopg
import pytest
import pytest_asyncio
from messenger_jobs.adapters.postgres.connection_pool import PooledConnections, connection_pool
from messenger_jobs.adapters.postgres.outbox_queue import PostgresOutboxQueue
from messenger_jobs.adapters.postgres.provisioning_store import PostgresProvisioningStore
from messenger_jobs.adapters.postgres.schema import COLUMNS
from messenger_jobs.adapters.system.clock import SystemClock
from messenger_jobs.application.cycle_report import Outcome
from messenger_jobs.application.ports.outbox_queue import FailedMessage, PublishedMessage
from messenger_jobs.application.provision_created_deal import CreatedDeal, ProvisionCreatedDeal
from messenger_jobs.application.provision_deal_chat import ProvisionDealChat
from messenger_jobs.domain.chat import Member
from messenger_jobs.domain.recording_finalize import FinalizeStatus
from messenger_jobs.domain.retry_schedule import RetrySchedule
from psycopg.errors import InsufficientPrivilege

from tests.e2e.recordings import JOB as RECORDING_JOB
from tests.e2e.recordings import Recordings
from tests.e2e.rows import Rows
from tests.operation.database_roles import SCRIPTS, DatabaseWithRoles, apply, database_with_roles
from tests.support.builders import RULES
from tests.support.postgres_servers import PostgresTestServer
from tests.support.processes import JOB, run_json
from tests.support.s3_servers import Bucket


@pytest.fixture
def database(postgres_server: PostgresTestServer) -> Iterator[DatabaseWithRoles]:
    with database_with_roles(postgres_server) as database:
        yield database


@pytest_asyncio.fixture
async def worker_connections(database: DatabaseWithRoles) -> AsyncIterator[PooledConnections]:
    async with connection_pool(database.accounts["worker"], size=2) as pool:
        yield PooledConnections(pool)


def a_created_deal(*members: Member) -> CreatedDeal:
    return CreatedDeal(
        deal_id=uuid4(),
        title="Flat 12",
        project_id=uuid4(),
        deal_tenant_id=uuid4(),
        members=members,
        event_id=uuid4(),
        correlation_id=uuid4(),
    )


def provision_created_deal(connections: PooledConnections) -> ProvisionCreatedDeal:
    clock = SystemClock()
    return ProvisionCreatedDeal(
        store=PostgresProvisioningStore(connections),
        provisioning=ProvisionDealChat(clock=clock, new_id=uuid4, spread=lambda: 0.0, rules=RULES),
        clock=clock,
        new_id=uuid4,
    )


# What must work


def test_worker_provisions_chats(database: DatabaseWithRoles) -> None:
    rows = Rows(database.admin_url)
    rows.seed(6, without_members=3)

    summary = run_json(database.accounts["worker"], "run-once", JOB, MAX_ATTEMPTS=1)

    assert (summary["end"], summary["provisioned"], summary["failed"]) == ("completed", 4, 2)
    assert rows.violations(max_attempts=1) == []


def test_worker_adds_to_a_chat_that_is_there_and_takes_back_who_left(database: DatabaseWithRoles) -> None:
    rows = Rows(database.admin_url)
    rows.seed(1)
    run_json(database.accounts["worker"], "run-once", JOB)
    with psycopg.connect(database.admin_url) as admin:
        admin.execute("update messenger.participants set left_at = now()")
        admin.execute(
            "update messenger.deal_chat_provisions set status = 'Failed', next_attempt_at = now() - interval '1 minute'"
        )

    summary = run_json(database.accounts["worker"], "run-once", JOB)

    assert summary["provisioned"] == 1
    with psycopg.connect(database.admin_url) as admin:
        assert admin.execute(
            "select count(*) from messenger.participants where left_at is null"
        ).fetchone() == (2,)


def test_worker_finishes_recordings(database: DatabaseWithRoles, bucket: Bucket) -> None:
    recordings = Recordings(database.admin_url, bucket)
    found, lost = recordings.put(), recordings.put(file=False)

    summary = run_json(database.accounts["worker"], "run-once", RECORDING_JOB, **recordings.settings())

    assert (summary["reconciled"], summary["failed"]) == (1, 1)
    assert recordings.state(found).available
    assert recordings.state(lost).lost


async def test_consumer_stores_what_it_is_told_and_tries_it(
    database: DatabaseWithRoles, worker_connections: PooledConnections
) -> None:
    consume = provision_created_deal(worker_connections)
    deal, unusable = a_created_deal(Member(user_id=uuid4(), role="Buyer")), a_created_deal()

    outcomes = [(await consume(message)).outcome for message in (deal, deal, unusable)]

    assert outcomes == [Outcome.PROVISIONED, Outcome.DUPLICATE, Outcome.RETRIED]
    assert await asyncio.to_thread(Rows(database.admin_url).violations, max_attempts=RULES.max_attempts) == []


async def test_relay_marks_parks_requeues_and_prunes(worker_connections: PooledConnections) -> None:
    for _ in range(2):
        await provision_created_deal(worker_connections)(
            a_created_deal(Member(user_id=uuid4(), role="Buyer"))
        )
    queue = PostgresOutboxQueue(worker_connections)
    now = datetime.now(UTC)

    first, second = [waiting.id for waiting in await queue.unpublished(after_id=0, up_to=2**62, limit=10)]
    await queue.mark_failed([FailedMessage(id=second, error_code="Kafka:TOO_LARGE", dead=True)], at=now)
    marked = await queue.mark_published([PublishedMessage(id=first, partition=0, offset=7)], at=now)
    parked = [dead.id for dead in await queue.dead(after_id=0, limit=10)]
    requeued = await queue.requeue(parked)
    pruned = await queue.prune(published_before=now + timedelta(seconds=1), limit=10)

    assert (marked, parked, list(requeued), pruned) == (1, [second], [second], 1)
    assert (await queue.backlog()).unpublished == 1


def test_operator_lets_rows_start_over(database: DatabaseWithRoles, bucket: Bucket) -> None:
    rows = Rows(database.admin_url)
    rows.seed(1, without_members=1)
    run_json(database.accounts["worker"], "run-once", JOB, MAX_ATTEMPTS=1)
    recordings = Recordings(database.admin_url, bucket)
    quarantined = {
        "status": FinalizeStatus.QUARANTINED,
        "schedule": RetrySchedule(
            attempts=8, next_attempt_at=datetime.now(UTC), last_error="Storage:HTTP_503"
        ),
    }
    recording = recordings.put(entry=quarantined)
    url = database.accounts["operator"]

    (provision,) = run_json(url, "requeue", JOB, "--all", MAX_ATTEMPTS=1)
    (finalization,) = run_json(url, "requeue", RECORDING_JOB, str(recording), **recordings.settings())

    assert (provision["requeued"], finalization["requeued"]) == (True, True)
    assert [row.attempts for row in rows.all()] == [0]
    assert recordings.state(recording).entry == "Pending"


def test_grants_can_be_repeated_and_migrations_too(database: DatabaseWithRoles) -> None:
    apply("roles.sql", database.admin_url)
    apply("grants.sql", database.accounts["migrate"])

    assert run_json(database.accounts["migrate"], "migrate") == []
    assert run_json(database.accounts["worker"], "run-once", JOB)["end"] == "completed"


# What must not


REFUSED = {
    "worker": [
        "update messenger.chats set title = 'Another'",
        "update messenger.chats set deal_id = null",
        "delete from messenger.chats",
        "delete from messenger.participants",
        "update messenger.participants set user_id = gen_random_uuid()",
        "update messenger.chat_events set actor = 'Somebody'",
        "delete from messenger.chat_events",
        "update messenger.deal_chat_provisions set deal_id = gen_random_uuid()",
        "update messenger.deal_chat_provisions set title = 'Another'",
        "delete from messenger.deal_chat_provisions",
        "update messenger.deal_chat_provision_members set user_id = gen_random_uuid()",
        "update messenger.call_recordings set object_key = 'another'",
        "update messenger.call_recordings set session_id = gen_random_uuid()",
        "insert into messenger.call_recordings default values",
        "delete from messenger.call_recordings",
        "delete from messenger.recording_finalize_attempts",
        "update messenger.realtime_outbox set dispatched_at = now()",
        "update messenger.outbox_messages set payload = '{}'",
        "update messenger.outbox_messages set topic = 'another'",
        "truncate messenger.outbox_messages",
        "create table messenger.mine ()",
        "drop table messenger.chats",
    ],
    "readonly": [
        "update messenger.deal_chat_provisions set attempts = 0",
        "select from messenger.deal_chat_provisions for update",
        "update messenger.outbox_messages set dead_at = null",
        "delete from messenger.outbox_messages",
        "insert into messenger.realtime_outbox default values",
        "create table messenger.mine ()",
    ],
    "operator": [
        "update messenger.deal_chat_provisions set status = 'Ready'",
        "update messenger.deal_chat_provisions set last_error = null",
        "update messenger.call_recordings set status = 'Failed'",
        "update messenger.outbox_messages set payload = '{}'",
        "update messenger.outbox_messages set published_at = now()",
        "delete from messenger.outbox_messages",
        "delete from messenger.deal_chat_provisions",
        "insert into messenger.chats default values",
        "create table messenger.mine ()",
    ],
}


@pytest.fixture(scope="module")
def shared_database(postgres_server: PostgresTestServer) -> Iterator[DatabaseWithRoles]:
    with database_with_roles(postgres_server) as database:
        yield database


@pytest.mark.parametrize(
    ("group", "statement"),
    [(group, statement) for group, statements in REFUSED.items() for statement in statements],
)
def test_account_is_refused_what_is_not_its_work(
    shared_database: DatabaseWithRoles, group: str, statement: str
) -> None:
    with pytest.raises(InsufficientPrivilege):
        shared_database.run(group, statement)


@pytest.mark.parametrize("table", COLUMNS)
def test_grants_say_of_every_table_who_may_write_it(table: str) -> None:
    assert f"messenger.{table} " in (SCRIPTS / "grants.sql").read_text(encoding="utf-8").replace("\n", " ")
