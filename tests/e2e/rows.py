"""Rows of a real database: put there, looked at, and held up."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import psycopg
from attrs import frozen
from messenger_jobs.adapters.postgres.audit import audit

from tests.support.eventually import eventually_here

_SEED: Final = """
with seeded as (
    insert into messenger.deal_chat_provisions
        (id, deal_id, title, status, next_attempt_at, created_at, updated_at)
    select gen_random_uuid(), gen_random_uuid(), 'Flat ' || number, 'Provisioning',
        now() - interval '1 hour' + number * interval '1 microsecond', now() - interval '1 hour',
        now() - interval '1 hour'
    from generate_series(1, %(count)s) as number
    returning id, title
)
insert into messenger.deal_chat_provision_members (provision_id, user_id, role)
select id, gen_random_uuid(), role
from seeded, unnest(array['Buyer', 'Seller']) as role
where (split_part(title, ' ', 2)::int %% %(one_in)s) <> 0
"""

_STATE: Final = """
select p.id::text, p.status, p.attempts,
    (select count(*) from messenger.chats c where c.deal_id = p.deal_id),
    (select count(*) from messenger.participants a where a.chat_id = p.chat_id),
    (select count(*) from messenger.chat_events e where e.chat_id = p.chat_id),
    (select count(*) from messenger.outbox_messages o where o.aggregate_id = p.deal_id::text)
from messenger.deal_chat_provisions p order by split_part(title, ' ', 2)::int
"""


@frozen
class Row:
    """A provision, and how many there are of what belongs to its deal."""

    id: str
    status: str
    attempts: int
    chats: int
    participants: int
    events: int
    messages: int

    @property
    def untouched(self) -> bool:
        return self.status == "Provisioning" and self.everything == (0, 0, 0, 0, 0)

    @property
    def ready_at_the_first_attempt(self) -> bool:
        return self.status == "Ready" and self.everything == (1, 1, 2, 1, 1)

    @property
    def everything(self) -> tuple[int, int, int, int, int]:
        return (self.attempts, self.chats, self.participants, self.events, self.messages)


@frozen
class Rows:
    """The database of a test, seen by an observer of its own."""

    url: str

    def seed(self, count: int, *, without_members: int = 0) -> None:
        """Due rows with two members each; if asked, one in `without_members` has none and will be refused."""
        with psycopg.connect(self.url) as connection:
            connection.execute(_SEED, {"count": count, "one_in": without_members or count + 1})

    def all(self) -> list[Row]:
        """In the order in which they came to be due."""
        return [Row(*row) for row in self._query(_STATE)]

    def count(self, status: str) -> int:
        return sum(row.status == status for row in self.all())

    def run_lock_is_held(self) -> bool:
        return bool(
            self._query(
                "select from pg_locks where locktype = 'advisory' and granted"
                " and database = (select oid from pg_database where datname = current_database())"
            )
        )

    def sessions_of_workers(self) -> int:
        return len(
            self._query(
                "select from pg_stat_activity"
                " where datname = current_database() and application_name like 'messenger-jobs%'"
            )
        )

    @contextmanager
    def held_up(self) -> Iterator[None]:
        """Within, no attempt that makes a chat comes to its end."""
        with psycopg.connect(self.url) as connection:
            connection.execute("lock table messenger.chats in share row exclusive mode")
            yield

    def wait_until_held_up(self) -> None:
        """Until an attempt waits for the end of `held_up`."""
        eventually_here(
            lambda: bool(
                self._query(
                    "select from pg_locks where not granted and relation = 'messenger.chats'::regclass"
                )
            )
        )

    def violations(self, *, max_attempts: int) -> list[str]:
        """What must never happen and did."""

        async def findings() -> list[str]:
            since = datetime.now(UTC) - timedelta(days=1)
            async with await psycopg.AsyncConnection.connect(self.url) as connection:
                found = await audit(connection, max_attempts=max_attempts, since=since)
            return [finding.claim for finding in found if finding.violations]

        return asyncio.run(findings())

    def _query(self, statement: Any, parameters: Any = ()) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            return connection.execute(statement, parameters or None).fetchall()
