"""What only the real server shows of provisioning: what an attempt costs, and what an accident in it leaves."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from messenger_jobs.adapters.memory.clock import ManualClock
from messenger_jobs.adapters.postgres import provision_statements as statements
from messenger_jobs.adapters.postgres.connection_pool import Pool, PooledConnections, connection_pool
from messenger_jobs.adapters.postgres.provision_rows import BEGINNING_OF_TIME, due_parameters
from messenger_jobs.adapters.postgres.provisioning_store import PostgresProvisioningStore
from messenger_jobs.application.chat_provision_retry import ChatProvisionRetry
from messenger_jobs.application.cycle_report import Cycle, Outcome
from messenger_jobs.application.ports.errors import DatabaseUnavailable
from messenger_jobs.application.provision_deal_chat import ProvisionDealChat
from messenger_jobs.domain.deal_chat_provision import DealChatProvision

from tests.contract.postgres_harness import PooledHarness, pooled_harness
from tests.contract.provisioning_harness import LATER, a_new_provision
from tests.support.builders import NOW, RULES, ids_from, some_id
from tests.support.postgres_proxy import through_proxy

CYCLE = Cycle(job="chat-provision-retry", run_id=some_id(1), as_of=NOW)


@pytest.fixture
async def database(database_url: str) -> AsyncGenerator[PooledHarness]:
    async with pooled_harness(database_url) as harness:
        yield harness


def job_on(pool: Pool, *, first_id: int = 9_000_000) -> ChatProvisionRetry:
    provisioning = ProvisionDealChat(
        clock=ManualClock(LATER), new_id=ids_from(first_id), spread=lambda: 0.0, rules=RULES
    )
    return ChatProvisionRetry(
        store=PostgresProvisioningStore(PooledConnections(pool)), provisioning=provisioning
    )


async def provisions(database: PooledHarness, count: int) -> list[DealChatProvision]:
    rows = [a_new_provision() for _ in range(count)]
    await database.put(*rows)
    return rows


def transactions(database: PooledHarness) -> int:
    """Number of the next transaction that writes."""
    row = database.observer.execute(
        "select pg_snapshot_xmax(pg_current_snapshot())::text::bigint as next"
    ).fetchone()
    assert row is not None
    return int(row["next"])


@asynccontextmanager
async def traced(pool: Pool) -> AsyncGenerator[Counter[str]]:
    """Counts the messages by which the pool's only connection asks the server for something."""
    asked: Counter[str] = Counter()
    async with PooledConnections(pool).statement() as connection:
        traced_connection = connection.pgconn
    with tempfile.TemporaryFile("w+") as trace:
        traced_connection.trace(trace.fileno())
        try:
            yield asked
        finally:
            traced_connection.untrace()
        trace.seek(0)
        asked.update(re.findall(r"^[^\t]+\tF\t\d+\t(\w+)", trace.read(), re.MULTILINE))


async def test_attempt_is_one_statement_and_one_transaction(database: PooledHarness) -> None:
    await provisions(database, 20)
    async with connection_pool(database.url, size=1) as pool:
        job = job_on(pool)
        first, *rows = await job.candidates(as_of=NOW, after=None, limit=100)
        await job.attempt(first, CYCLE)  # the first one of a connection prepares the statement
        before = transactions(database)
        async with traced(pool) as asked:
            for row in rows:
                assert (await job.attempt(row, CYCLE)).outcome is Outcome.PROVISIONED
        assert asked == {"Bind": 19, "Describe": 19, "Execute": 19, "Sync": 19}
        assert transactions(database) - before == 19


async def test_refusal_is_one_statement_and_one_transaction(database: PooledHarness) -> None:
    rows = [a_new_provision() for _ in range(5)]
    await database.put(*rows)
    database.observer.execute("delete from messenger.deal_chat_provision_members")
    async with connection_pool(database.url, size=1) as pool:
        job = job_on(pool)
        before = transactions(database)
        seen = await job.candidates(as_of=NOW, after=None, limit=100)
        async with traced(pool) as asked:
            for row in seen:
                assert (await job.attempt(row, CYCLE)).outcome is Outcome.RETRIED
        assert asked["Execute"] == 5
        assert asked["Query"] == 0
        assert transactions(database) - before == 5


async def test_batch_is_read_by_two_statements_that_write_nothing(database: PooledHarness) -> None:
    await provisions(database, 20)
    before = transactions(database)
    async with connection_pool(database.url, size=1) as pool, traced(pool) as asked:
        assert len(await job_on(pool).candidates(as_of=NOW, after=None, limit=100)) == 20
    assert asked["Execute"] == 2
    assert asked["Query"] == 0
    assert transactions(database) == before


# What a claim reads

ROWS = """
insert into messenger.chats (id, kind, status, deal_id, title, created_at, updated_at)
    values (gen_random_uuid(), 'Deal', 'Active', gen_random_uuid(), 'Flat', now(), now());
insert into messenger.deal_chat_provisions
    (id, deal_id, chat_id, title, status, attempts, next_attempt_at, created_at, updated_at)
select gen_random_uuid(), gen_random_uuid(), case when kind = 'Ready' then (select id from messenger.chats) end, 'Flat',
    case kind when 'Ready' then 'Ready' else 'Failed' end,
    case kind when 'poison' then 8 else n % 8 end,
    '2026-03-14 09:00+00'::timestamptz - n * interval '1 second', now(), '2026-03-01'
from (values ('Ready', 20000), ('poison', 20000), ('due', 20000)) as kinds (kind, count), generate_series(1, count) n
"""


def nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(node for child in plan.get("Plans", ()) for node in nodes(child))]


def explain(url: str, query: bytes, parameters: dict[str, object]) -> list[dict[str, Any]]:
    with psycopg.connect(url, cursor_factory=psycopg.ClientCursor) as connection:
        connection.execute("set enable_seqscan = on")
        row = connection.execute(b"explain (analyze, buffers, format json) " + query, parameters).fetchone()
    assert row is not None
    (explained,) = row[0]
    return nodes(explained["Plan"])


@pytest.mark.parametrize("position", ["first batch", "in the middle"])
def test_claim_reads_ix_dcp_due_no_further_than_its_batch(database_url: str, position: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(ROWS)
        connection.execute("analyze")
    after = BEGINNING_OF_TIME if position == "first batch" else NOW - timedelta(hours=3)
    plan = explain(
        database_url,
        statements.candidates(RULES.max_attempts).as_bytes(None),
        {"after_at": after, "after_id": some_id(0), "limit": 100, **due_parameters(NOW, RULES)},
    )
    scans = [node for node in plan if "Relation Name" in node]
    assert {node.get("Index Name") for node in scans} == {"ix_dcp_due"}
    assert all("Sort" not in node["Node Type"] for node in plan)
    assert plan[0]["Actual Rows"] == 100
    assert sum(node["Actual Rows"] * node["Actual Loops"] for node in scans) <= 100 + 2 * RULES.max_attempts
    assert plan[0]["Shared Hit Blocks"] + plan[0]["Shared Read Blocks"] < 400


# Accidents

KILL = """
create function messenger.kill() returns trigger language plpgsql as
    $$ begin perform pg_terminate_backend(pg_backend_pid()); return new; end $$;
create trigger killing after insert on messenger.outbox_messages for each row execute function messenger.kill()
"""


async def test_session_killed_in_the_middle_of_an_attempt_leaves_the_row_as_it_was(
    database: PooledHarness,
) -> None:
    (provision,) = await provisions(database, 1)
    before = await database.stored()
    database.observer.execute(KILL)
    async with connection_pool(database.url, size=1) as pool:
        job = job_on(pool)
        (row,) = await job.candidates(as_of=NOW, after=None, limit=1)
        with pytest.raises(DatabaseUnavailable):
            await job.attempt(row, CYCLE)
        assert await database.stored() == before
        await database.assert_nothing_left()
        database.observer.execute("drop trigger killing on messenger.outbox_messages")
        assert (await job.attempt(row, CYCLE)).outcome is Outcome.PROVISIONED
    assert (await database.stored()).provision(provision.id).version == provision.version + 1


async def test_attempt_whose_answer_is_lost_is_done_and_not_done_again(
    database: PooledHarness, database_url: str
) -> None:
    _, provision = await provisions(database, 2)
    async with through_proxy(database_url) as (proxy, url), connection_pool(url, size=1) as pool:
        job = job_on(pool)
        first, row = await job.candidates(as_of=NOW, after=None, limit=2)
        await job.attempt(first, CYCLE)  # prepares the statement, so that the next one is a single message
        lost = proxy.lose_answer(to=str(provision.deal_id).encode())
        with pytest.raises(DatabaseUnavailable):
            await job.attempt(row, CYCLE)
        await lost.answered.wait()
        done = await database.stored()
        assert len(done.messages_about(provision.deal_id)) == 1
        assert await job.candidates(as_of=NOW, after=None, limit=1) == []
        assert (await job.attempt(row, CYCLE)).outcome is Outcome.SKIPPED
    assert await database.stored() == done
