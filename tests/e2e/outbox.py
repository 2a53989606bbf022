"""The outbox of a real database, and what of it arrived at the broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from attrs import frozen
from messenger_jobs.application.integration_events import DEAL_CHAT_STATUS_CHANGED_TOPIC

from tests.support.eventually import eventually_here
from tests.support.kafka_log import records_of

_ADD: Final = """
insert into messenger.outbox_messages (event_id, topic, message_key, aggregate_type, aggregate_id, event_type,
    contract_version, payload, occurred_at)
select gen_random_uuid(), %(topic)s, 'deal ' || key, 'DealChatProvision', 'deal ' || key, 'DealChatStatusChanged', 1,
    jsonb_build_object('padding', repeat('x', %(padding)s)), now()
from generate_series(1, %(each)s) as number, generate_series(1, %(keys)s) as key
order by number, key
"""


@frozen
class Outbox:
    """The outbox of a test."""

    url: str

    def add(self, *, keys: int, each: int = 1, padding: int = 0) -> None:
        """`each` messages for every one of `keys` keys, one key after the other, as one transaction."""
        parameters = {
            "topic": DEAL_CHAT_STATUS_CHANGED_TOPIC,
            "keys": keys,
            "each": each,
            "padding": padding,
        }
        with psycopg.connect(self.url) as connection:
            connection.execute(_ADD, parameters)

    def add_one(self, key: int, *, padding: int = 0) -> None:
        """One message of this key."""
        with psycopg.connect(self.url) as connection:
            connection.execute(
                _ADD.replace("generate_series(1, %(keys)s) as key", "(values (%(keys)s)) as one (key)"),
                {"topic": DEAL_CHAT_STATUS_CHANGED_TOPIC, "keys": key, "each": 1, "padding": padding},
            )

    def waiting(self) -> int:
        """Messages neither published nor dead."""
        ((number,),) = self._query(
            "select count(*) from messenger.outbox_messages where published_at is null and dead_at is null"
        )
        return int(number)

    def wait_until_empty(self, *, within: float = 60) -> None:
        eventually_here(lambda: self.waiting() == 0, within=within)

    def attempts(self) -> set[int]:
        """How often messages were counted as tried."""
        return {
            number for (number,) in self._query("select distinct attempts from messenger.outbox_messages")
        }

    def dead(self) -> list[str]:
        """Errors of the parked messages."""
        return [
            error
            for (error,) in self._query(
                "select last_error from messenger.outbox_messages where dead_at is not null"
            )
        ]

    def committed(self) -> dict[str, list[str]]:
        """Event ids that are not dead by their key, in the order of their insertion."""
        by_key: dict[str, list[str]] = {}
        for key, event_id in self._query(
            "select message_key, event_id::text from messenger.outbox_messages where dead_at is null order by id"
        ):
            by_key.setdefault(key, []).append(event_id)
        return by_key

    @contextmanager
    def unmarkable(self) -> Iterator[None]:
        """Within, messages can be read and published, but not marked as published."""
        with psycopg.connect(self.url) as connection:
            connection.execute("lock table messenger.outbox_messages in share mode")
            yield

    def wait_until_one_wants_to_mark(self) -> None:
        eventually_here(
            lambda: bool(
                self._query(
                    "select from pg_locks where not granted"
                    " and relation = 'messenger.outbox_messages'::regclass"
                )
            )
        )

    def end_those_who_want_to_mark(self) -> None:
        """By itself the server would only notice that they are gone once it has done what they asked for."""
        self._query(
            "select pg_terminate_backend(pid, 5000) from pg_locks where not granted"
            " and relation = 'messenger.outbox_messages'::regclass"
        )

    def _query(self, statement: Any) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            return connection.execute(statement).fetchall()


@frozen
class Arrived:
    """What is in the topic."""

    first: dict[str, list[str]]
    """Event ids by key, each at its first occurrence."""
    duplicates: int
    """Records beyond those."""


def arrived(bootstrap_servers: str) -> Arrived:
    """Read the whole topic; fails when two records of one event differ, or say another id than their envelope."""
    first: dict[str, list[str]] = {}
    values: dict[str, bytes] = {}
    duplicates = 0
    for record in records_of(bootstrap_servers, DEAL_CHAT_STATUS_CHANGED_TOPIC):
        assert record.key is not None
        assert record.value is not None
        event_id = dict(record.headers)["event-id"].decode()
        assert json.loads(record.value)["eventId"] == event_id
        if event_id in values:
            assert values[event_id] == record.value
            duplicates += 1
            continue
        values[event_id] = record.value
        first.setdefault(record.key.decode(), []).append(event_id)
    return Arrived(first=first, duplicates=duplicates)
