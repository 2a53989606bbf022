"""Which commands each group of deploy/postgres/ is enough for."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.e2e.rows import Rows
from tests.operation.database_roles import DatabaseWithRoles, database_with_roles
from tests.support.postgres_servers import PostgresTestServer
from tests.support.processes import JOB, run, run_json


@pytest.fixture(scope="module")
def database(postgres_server: PostgresTestServer) -> Iterator[DatabaseWithRoles]:
    """With a row whose only attempt is used up, one that is due, and a parked event."""
    with database_with_roles(postgres_server) as database:
        rows = Rows(database.admin_url)
        rows.seed(1, without_members=1)
        run_json(database.accounts["worker"], "run-once", JOB, MAX_ATTEMPTS=1)
        rows.seed(1)
        with psycopg.connect(database.admin_url) as admin:
            admin.execute(
                "update messenger.outbox_messages set dead_at = now(), last_error = 'Kafka:SOME_CODE'"
            )
        yield database


@pytest.fixture(scope="module")
def ids(database: DatabaseWithRoles) -> dict[str, str]:
    with psycopg.connect(database.admin_url) as admin:
        poison = admin.execute(
            "select id::text from messenger.deal_chat_provisions where status = 'Failed'"
        ).fetchone()
        message = admin.execute("select id::text from messenger.outbox_messages").fetchone()
    assert poison is not None
    assert message is not None
    return {"ID": poison[0], "MESSAGE": message[0]}


@pytest.mark.parametrize(
    ("group", "command"),
    [
        ("readonly", "status"),
        ("readonly", "list chat-provision-retry --state poison"),
        ("readonly", "show chat-provision-retry ID"),
        ("readonly", "outbox list"),
        ("readonly", "audit"),
        ("operator", "explain chat-provision-retry ID"),
        ("operator", "requeue chat-provision-retry ID --dry-run"),
        ("operator", "audit"),
        ("worker", "check"),
        ("worker", "status"),
        ("worker", "list chat-provision-retry"),
        ("worker", "show chat-provision-retry ID"),
        ("worker", "explain chat-provision-retry ID"),
        ("worker", "requeue chat-provision-retry ID --dry-run"),
        ("worker", "outbox list"),
        ("worker", "outbox prune"),
        ("worker", "audit"),
    ],
)
def test_account_is_enough(
    database: DatabaseWithRoles, ids: dict[str, str], group: str, command: str
) -> None:
    arguments = [ids.get(word, word) for word in command.split()]

    finished = run(database.accounts[group], *arguments, "--json", MAX_ATTEMPTS=1)

    assert finished.returncode == 0, finished.stderr


@pytest.mark.parametrize(
    ("group", "command"),
    [
        ("readonly", "check"),
        ("readonly", "requeue chat-provision-retry --all"),
        ("readonly", "outbox requeue MESSAGE"),
        ("readonly", "run-once chat-provision-retry"),
        ("operator", "run-once chat-provision-retry"),
        ("worker", "migrate"),
    ],
)
def test_account_is_not_enough_and_the_command_says_so_in_one_sentence(
    database: DatabaseWithRoles, ids: dict[str, str], group: str, command: str
) -> None:
    arguments = [ids.get(word, word) for word in command.split()]

    finished = run(database.accounts[group], *arguments, MAX_ATTEMPTS=1)

    assert finished.returncode == 1, finished.stdout
    (complaint,) = [line for line in finished.stderr.splitlines() if line.startswith("messenger-jobs: ")]
    assert "42501" in complaint or "the account lacks" in complaint


def test_operator_lets_a_row_and_an_event_start_over(
    postgres_server: PostgresTestServer, database: DatabaseWithRoles, ids: dict[str, str]
) -> None:
    url = database.accounts["operator"]

    (row,) = run_json(url, "requeue", JOB, "--all", MAX_ATTEMPTS=1)
    (event,) = run_json(url, "outbox", "requeue", ids["MESSAGE"])

    assert (row["requeued"], event["requeued"]) == (True, True)
