"""The rules that say which rows are due, waiting, poison or finished are the same in SQL as in the domain.

Each example is one table with every combination of what the rules ask for, at the edges of a generated moment and a
microsecond off them, written in different time zones and read by a session in yet another one.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta, timezone
from itertools import cycle, product
from typing import Any, Final, TypeVar
from uuid import UUID

from attrs import asdict, evolve, frozen
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from messenger_jobs.adapters.postgres.fetching import rows_on
from messenger_jobs.adapters.postgres.finalization_inspection import PostgresFinalizationInspection
from messenger_jobs.adapters.postgres.finalization_store import PostgresFinalizationStore
from messenger_jobs.adapters.postgres.host_connection import HostTransaction
from messenger_jobs.adapters.postgres.provision_rows import due_parameters
from messenger_jobs.adapters.postgres.provision_statements import DUE
from messenger_jobs.adapters.postgres.provisioning_inspection import PostgresProvisioningInspection
from messenger_jobs.adapters.postgres.provisioning_store import PostgresProvisioningStore
from messenger_jobs.application.cursor import Cursor
from messenger_jobs.application.ports.finalization import FinalizationBacklog
from messenger_jobs.application.ports.provisioning import ProvisioningBacklog
from messenger_jobs.application.ports.row_summary import RowState
from messenger_jobs.application.row_states import finalization_state, provision_state
from messenger_jobs.domain.deal_chat_provision import DealChatProvision, ProvisioningRules, ProvisionStatus
from messenger_jobs.domain.recording_finalize import FinalizeStatus, RecordingFinalize
from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from tests.support.builders import CHAT_ID, MICROSECOND, a_provision, some_id
from tests.support.recordings import an_entry

Row = TypeVar("Row", DealChatProvision, RecordingFinalize)

ALL: Final = 10_000
ZONES: Final = ("UTC", "Asia/Kolkata", "Europe/Berlin", "America/St_Johns", "Pacific/Apia")
ERRORS: Final = (None, "ProvisionGuard:NO_MEMBERS", "Storage:TIMEOUT")

moments: st.SearchStrategy[datetime] = st.one_of(
    # Around the hours that some zones have twice, or not at all.
    st.sampled_from([datetime(2026, 3, 29, 1, tzinfo=UTC), datetime(2026, 10, 25, 1, tzinfo=UTC)]),
    st.integers(min_value=0, max_value=50 * 365 * 86_400 * 10**6).map(
        lambda number: datetime(2000, 1, 1, tzinfo=UTC) + number * MICROSECOND
    ),
)
distances: st.SearchStrategy[list[timedelta]] = st.lists(
    st.timedeltas(min_value=-timedelta(days=400), max_value=timedelta(days=400)), min_size=1, max_size=3
).map(lambda some: [-MICROSECOND, timedelta(0), MICROSECOND, *some])
offsets: st.SearchStrategy[list[timezone]] = st.lists(
    st.integers(min_value=-12 * 60, max_value=14 * 60).map(
        lambda minutes: timezone(timedelta(minutes=minutes))
    ),
    min_size=1,
    max_size=5,
)
all_rules: st.SearchStrategy[ProvisioningRules] = st.builds(
    ProvisioningRules,
    max_attempts=st.integers(min_value=1, max_value=10),
    stuck_after=st.sampled_from([timedelta(0), MICROSECOND, timedelta(minutes=5)])
    | st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=400)),
)
on_one_database = settings(
    max_examples=20,
    suppress_health_check=[HealthCheck.function_scoped_fixture],  # every example is rolled back
)


@frozen(kw_only=True)
class Scene:
    as_of: datetime
    distances: Sequence[timedelta]
    offsets: Sequence[timezone]
    """In which rows are written."""
    session_zone: str
    limit: int


scenes: st.SearchStrategy[Scene] = st.builds(
    Scene,
    as_of=moments,
    distances=distances,
    offsets=offsets,
    session_zone=st.sampled_from(ZONES),
    limit=st.integers(min_value=20, max_value=ALL),
)


@asynccontextmanager
async def session(url: str, scene: Scene) -> AsyncGenerator[AsyncConnection[TupleRow]]:
    """One whose transaction is rolled back."""
    async with await AsyncConnection.connect(url) as connection:
        await connection.execute("select set_config('TimeZone', %s, true)", [scene.session_zone])
        yield connection
        await connection.rollback()


def provisions_of(scene: Scene, rules: ProvisioningRules) -> list[DealChatProvision]:
    attempts = sorted({0, rules.max_attempts - 1, rules.max_attempts, rules.max_attempts + 1, 200})
    combinations = product(ProvisionStatus, attempts, scene.distances, scene.distances)
    return [
        evolve(
            a_provision(
                id=some_id(1_000 + number),
                deal_id=some_id(100_000 + number),
                status=status,
                chat_id=CHAT_ID if status is ProvisionStatus.READY else None,
                attempts=tried,
                next_attempt_at=scene.as_of + until_next,
                last_error=ERRORS[number % len(ERRORS)],
                members=(),
                updated_at=scene.as_of - rules.stuck_after + since_stuck,
            ),
            project_id=None,
            deal_tenant_id=None,
            created_at=scene.as_of - number % 7 * MICROSECOND,
        )
        for number, (status, tried, until_next, since_stuck) in enumerate(combinations)
    ]


def entries_of(scene: Scene) -> list[RecordingFinalize]:
    combinations = product(FinalizeStatus, (0, 8), scene.distances, range(10))
    return [
        an_entry(
            id=some_id(1_000 + number),
            recording_id=some_id(100_000 + number),
            status=status,
            attempts=tried,
            next_attempt_at=scene.as_of + until_next,
            last_error=ERRORS[number % len(ERRORS)],
            created_at=scene.as_of - number % 7 * MICROSECOND,
            version=0,
        )
        for number, (status, tried, until_next, _) in enumerate(combinations)
    ]


DUE_IDS: Final = "select p.id from messenger.deal_chat_provisions p where " + DUE  # noqa: S608

_INSERT_CHAT: Final = """
insert into messenger.chats (id, kind, status, title, created_at, updated_at)
values (%s, 'Group', 'Active', '', now(), now())
"""
_INSERT_PROVISIONS: Final = """
insert into messenger.deal_chat_provisions (id, deal_id, chat_id, title, status, attempts, next_attempt_at, last_error,
    created_at, updated_at)
select * from jsonb_to_recordset(%s::jsonb) as row (id uuid, deal_id uuid, chat_id uuid, title text, status text,
    attempts integer, next_attempt_at timestamptz, last_error text, created_at timestamptz, updated_at timestamptz)
"""
_INSERT_ENTRIES: Final = """
insert into messenger.recording_finalize_attempts (id, recording_id, session_kind, session_id, status, attempts,
    next_attempt_at, last_error, created_at, updated_at)
select * from jsonb_to_recordset(%s::jsonb) as row (id uuid, recording_id uuid, session_kind text, session_id uuid,
    status text, attempts integer, next_attempt_at timestamptz, last_error text, created_at timestamptz,
    updated_at timestamptz)
"""


def as_json(rows: Sequence[Row], offsets: Sequence[timezone]) -> str:
    """Each row's times in one of the zones."""

    def column(zone: timezone, value: Any) -> Any:
        return value.astimezone(zone).isoformat() if isinstance(value, datetime) else str(value)

    def columns(row: Row, zone: timezone) -> dict[str, Any]:
        values = asdict(row, recurse=False)
        values |= asdict(values.pop("schedule"))
        values.pop("members", None)
        return {
            name: value if value is None or isinstance(value, int) else column(zone, value)
            for name, value in values.items()
        }

    return json.dumps([columns(row, zone) for row, zone in zip(rows, cycle(offsets), strict=False)])


def ids(rows: Sequence[Row], of: Callable[[Row], bool]) -> set[UUID]:
    return {row.id for row in rows if of(row)}


def place(row: DealChatProvision | RecordingFinalize) -> tuple[datetime, UUID]:
    return row.schedule.next_attempt_at, row.id


@on_one_database
@given(scene=scenes, rules=all_rules)
async def test_provisions_are_selected_as_the_domain_says(
    module_database_url: str, scene: Scene, rules: ProvisioningRules
) -> None:
    as_of, rows = scene.as_of, provisions_of(scene, rules)
    due = sorted((row for row in rows if row.is_due(as_of=as_of, rules=rules)), key=place)
    async with session(module_database_url, scene) as connection:
        await connection.execute(_INSERT_CHAT, [CHAT_ID])
        await connection.execute(_INSERT_PROVISIONS, [as_json(rows, scene.offsets)])
        host = HostTransaction(connection)
        store, inspection = PostgresProvisioningStore(host), PostgresProvisioningInspection(host)

        by_rule = await rows_on(
            connection,
            DUE_IDS,
            due_parameters(as_of, rules),
        )
        assert {id_ for (id_,) in by_rule} == {row.id for row in due}

        found: list[DealChatProvision] = []
        after: Cursor | None = None
        while page := await store.candidates(as_of=as_of, after=after, limit=scene.limit, rules=rules):
            found += [seen.provision for seen in page]
            after = Cursor(next_attempt_at=found[-1].schedule.next_attempt_at, id=found[-1].id)
        assert found == due
        assert [row.due_from(rules=rules) for row in found] == [row.due_from(rules=rules) for row in due]

        states = {row.id: provision_state(row, as_of=as_of, rules=rules) for row in rows}
        for state in RowState:
            shown = await inspection.page(state, as_of=as_of, rules=rules, after=None, limit=ALL)
            assert {row.id for row in shown} == ids(rows, lambda row, state=state: states[row.id] is state)  # type: ignore[misc]
        poison = ids(rows, lambda row: states[row.id] is RowState.POISON)
        assert set(await store.poison_ids(rules=rules)) == poison

        waited_for = [
            row
            for row in rows
            if row.status is ProvisionStatus.FAILED
            or (row.status is ProvisionStatus.PROVISIONING and as_of - row.updated_at >= rules.stuck_after)
        ]
        assert await store.backlog(as_of=as_of, rules=rules) == ProvisioningBacklog(
            failed=len(waited_for),
            due=len(due),
            waiting=sum(state is RowState.WAITING for state in states.values()),
            poison=sum(states[row.id] is RowState.POISON for row in waited_for),
            oldest_created_at=min((row.created_at for row in waited_for), default=None),
        )


@on_one_database
@given(scene=scenes)
async def test_finalizations_are_selected_as_the_domain_says(module_database_url: str, scene: Scene) -> None:
    as_of, rows = scene.as_of, entries_of(scene)
    due = sorted((row for row in rows if row.is_due(as_of=as_of)), key=place)
    async with session(module_database_url, scene) as connection:
        await connection.execute(_INSERT_ENTRIES, [as_json(rows, scene.offsets)])
        host = HostTransaction(connection)
        store, inspection = PostgresFinalizationStore(host), PostgresFinalizationInspection(host)

        found: list[RecordingFinalize] = []
        after: Cursor | None = None
        while page := await store.candidates(as_of=as_of, after=after, limit=scene.limit):
            found += [seen.entry for seen in page]
            after = Cursor(next_attempt_at=found[-1].schedule.next_attempt_at, id=found[-1].id)
        assert found == due

        states = {row.id: finalization_state(row, as_of=as_of) for row in rows}
        for state in RowState:
            shown = await inspection.page(state, as_of=as_of, after=None, limit=ALL)
            assert {row.id for row in shown} == ids(rows, lambda row, state=state: states[row.id] is state)  # type: ignore[misc]
        quarantined = ids(rows, lambda row: states[row.id] is RowState.POISON)
        assert set(await store.quarantined_ids()) == quarantined

        pending = [row for row in rows if row.status is FinalizeStatus.PENDING]
        assert await store.backlog(as_of=as_of) == FinalizationBacklog(
            pending=len(pending),
            due=len(due),
            quarantined=len(quarantined),
            oldest_created_at=min((row.created_at for row in pending), default=None),
        )
