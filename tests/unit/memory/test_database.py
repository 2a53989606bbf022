"""What the memory database shows of PostgreSQL beyond what the ports' contracts reach."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from attrs import evolve
from messenger_jobs.adapters.memory.clock import ManualClock
from messenger_jobs.adapters.memory.database import Transaction
from messenger_jobs.adapters.memory.outbox import MemoryOutbox
from messenger_jobs.adapters.memory.provision_rows import provision_row
from messenger_jobs.adapters.memory.schema import MemberRow, MessengerDatabase, OutboxRow
from messenger_jobs.adapters.memory.switch import Phase
from messenger_jobs.adapters.memory.table import ConstraintViolation
from messenger_jobs.application.ports.errors import DatabaseUnavailable, RowRolledBack
from messenger_jobs.domain.chat import DEAL_CHAT_PROVISIONED, ChatEvent

from tests.contract.memory_harness import LOCK_TIMEOUT, let_everybody_run
from tests.contract.outbox import a_message
from tests.support.builders import (
    CHAT_ID,
    DEAL_ID,
    NOW,
    PROVISION_ID,
    a_chat,
    a_participant,
    a_provision,
    some_id,
)
from tests.unit.application.cycles import ScriptedSwitch

GONE = DatabaseUnavailable("CONNECTION_LOST", "gone")


@pytest.fixture
def database() -> MessengerDatabase:
    return MessengerDatabase(ManualClock(NOW), lock_timeout=LOCK_TIMEOUT)


def an_outbox_row(**changes: Any) -> OutboxRow:
    return evolve(OutboxRow(id=1, message=a_message(), created_at=NOW), **changes)


async def rename(database: MessengerDatabase, transaction: Transaction, suffix: str) -> None:
    """Reads, then writes what was read: loses an update unless the lock is waited for."""
    async with transaction.statement("rename"):
        chat = await transaction.lock(database.chats, CHAT_ID)
        assert chat is not None
        await transaction.update(database.chats, evolve(chat, title=chat.title + suffix))


# Setting up and looking into


def test_put_rows_are_committed_at_once_and_replace_those_with_their_key(database: MessengerDatabase) -> None:
    database.put(database.chats, a_chat(), a_chat(id=some_id(9), deal_id=None, kind="Group"))
    database.put(database.chats, a_chat(title="Renamed", version=1))
    assert database.row(database.chats, CHAT_ID) == a_chat(title="Renamed", version=1)
    assert len(database.rows(database.chats)) == 2
    assert (database.open_transactions, database.locks.held) == (0, 0)


def test_put_is_all_or_nothing(database: MessengerDatabase) -> None:
    with pytest.raises(ConstraintViolation):
        database.put(database.chats, a_chat(), a_chat(id=some_id(9)))
    assert database.rows(database.chats) == []
    assert (database.open_transactions, database.locks.held) == (0, 0)


async def test_put_refuses_to_wait_for_an_open_transaction(database: MessengerDatabase) -> None:
    database.put(database.chats, a_chat())
    async with database.begin() as transaction:
        await rename(database, transaction, "!")
        with pytest.raises(RowRolledBack):
            database.put(database.chats, a_chat(title="x"))
        await transaction.commit()
    assert [chat.title for chat in database.rows(database.chats)] == ["Flat 12!"]


# Constraints


@pytest.mark.parametrize(
    ("put", "sqlstate", "constraint"),
    [
        (lambda db: db.put(db.chats, a_chat(), a_chat(id=some_id(9))), "23505", "ux_chats_deal_id"),
        (lambda db: db.put(db.chats, evolve(a_chat(), deal_id=None)), "23514", "ck_chats_deal"),
        (lambda db: db.put(db.chats, a_chat(version=-1)), "23514", "ck_chats_version"),
        (lambda db: db.put(db.participants, a_participant()), "23503", "fk_participants_chat"),
        (
            lambda db: db.put(db.provisions, evolve(provision_row(a_provision()), status="Gone")),
            "23514",
            "ck_dcp_status",
        ),
        (
            lambda db: db.put(db.provisions, evolve(provision_row(a_provision()), status="Ready")),
            "23514",
            "ck_dcp_ready",
        ),
        (
            lambda db: db.put(db.provisions, evolve(provision_row(a_provision()), attempts=-1)),
            "23514",
            "ck_dcp_attempts",
        ),
        (
            lambda db: db.put(db.provisions, evolve(provision_row(a_provision()), chat_id=CHAT_ID)),
            "23503",
            "fk_dcp_chat",
        ),
        (
            lambda db: db.put(db.provisions, *(provision_row(a_provision(id=some_id(n))) for n in (1, 2))),
            "23505",
            "ux_dcp_deal",
        ),
        (
            lambda db: db.put(db.members, MemberRow(provision_id=PROVISION_ID, user_id=some_id(1), role="x")),
            "23503",
            "fk_dcp_members_provision",
        ),
        (lambda db: db.put(db.outbox, an_outbox_row(attempts=-1)), "23514", "ck_outbox_attempts"),
        (lambda db: db.put(db.outbox, an_outbox_row(published_offset=1)), "23514", "ck_outbox_receipt"),
        (
            lambda db: db.put(db.outbox, an_outbox_row(published_at=NOW, dead_at=NOW)),
            "23514",
            "ck_outbox_end",
        ),
        (
            lambda db: db.put(db.outbox, an_outbox_row(last_error="x" * 513)),
            "22001",
            "last_error varchar(512)",
        ),
    ],
)
def test_constraint_is_kept_under_its_name(
    database: MessengerDatabase, put: Callable[[MessengerDatabase], object], sqlstate: str, constraint: str
) -> None:
    with pytest.raises(ConstraintViolation) as violation:
        put(database)
    assert (violation.value.code, violation.value.constraint) == (sqlstate, constraint)


def test_feed_tells_a_chats_provisioning_once(database: MessengerDatabase) -> None:
    def entry(number: int, type: str) -> ChatEvent:
        return ChatEvent(
            id=some_id(number), chat_id=CHAT_ID, type=type, actor="System", occurred_at=NOW, data={}
        )

    database.put(database.chats, a_chat())
    database.put(
        database.chat_events, entry(1, "Renamed"), entry(2, "Renamed"), entry(3, DEAL_CHAT_PROVISIONED)
    )
    with pytest.raises(ConstraintViolation, match="ux_chat_events_deal_chat_provisioned"):
        database.put(database.chat_events, entry(4, DEAL_CHAT_PROVISIONED))


# Waiting


async def test_updates_of_one_row_wait_for_each_other_and_none_is_lost(database: MessengerDatabase) -> None:
    database.put(database.chats, a_chat())

    async def append(suffix: str) -> None:
        async with database.begin() as transaction:
            await rename(database, transaction, suffix)
            await asyncio.sleep(0)
            await transaction.commit()

    await asyncio.gather(*map(append, "abcde"))
    assert [chat.title for chat in database.rows(database.chats)] == ["Flat 12abcde"]


async def test_lock_goes_to_the_first_who_still_waits(database: MessengerDatabase) -> None:
    database.put(database.chats, a_chat())
    order: list[int] = []

    async def wait(number: int) -> None:
        async with database.begin() as transaction, transaction.statement("lock"):
            await transaction.lock(database.chats, CHAT_ID)
            order.append(number)

    async with database.begin() as holder:
        async with holder.statement("lock"):
            await holder.lock(database.chats, CHAT_ID)
        waiting = [asyncio.create_task(wait(number)) for number in range(4)]
        await let_everybody_run()
        waiting[0].cancel()
        waiting[2].cancel()
    await asyncio.wait(waiting)
    assert order == [1, 3]
    assert database.locks.held == 0


async def test_lock_handed_to_somebody_who_is_cancelled_at_that_moment_is_handed_on(
    database: MessengerDatabase,
) -> None:
    database.put(database.chats, a_chat())

    async def wait() -> None:
        async with database.begin() as transaction, transaction.statement("lock"):
            await transaction.lock(database.chats, CHAT_ID)

    async with database.begin() as holder:
        async with holder.statement("lock"):
            await holder.lock(database.chats, CHAT_ID)
        first, second = asyncio.create_task(wait()), asyncio.create_task(wait())
        await let_everybody_run()
        await holder.commit()
        first.cancel()
    await asyncio.wait({first, second})
    assert (first.cancelled(), second.exception()) == (True, None)
    assert database.locks.held == 0


async def test_lock_is_not_handed_to_somebody_who_was_cancelled_just_before(
    database: MessengerDatabase,
) -> None:
    database.put(database.chats, a_chat())

    async def wait() -> None:
        async with database.begin() as transaction, transaction.statement("lock"):
            await transaction.lock(database.chats, CHAT_ID)

    async with database.begin() as holder:
        async with holder.statement("lock"):
            await holder.lock(database.chats, CHAT_ID)
        waiting = asyncio.create_task(wait())
        await let_everybody_run()
        waiting.cancel()
        holder.publish()  # without giving the cancelled task a turn
    await asyncio.wait({waiting})
    assert waiting.cancelled()
    assert database.locks.held == 0


async def test_wait_that_ended_well_leaves_no_timer(database: MessengerDatabase) -> None:
    database.put(database.chats, a_chat())
    async with database.begin() as waiting:
        async with database.begin() as holder:
            await rename(database, holder, "!")
            renaming = asyncio.create_task(rename(database, waiting, "?"))
            await let_everybody_run()
            assert database.clock.time_to_next == LOCK_TIMEOUT
            await holder.commit()
        await renaming
    assert database.clock.time_to_next is None


@pytest.mark.parametrize("commits", [True, False])
async def test_unique_value_that_is_being_given_up_is_waited_for(
    database: MessengerDatabase, commits: bool
) -> None:
    database.put(database.chats, a_chat())

    async def take() -> None:
        async with database.begin() as transaction:
            async with transaction.statement("insert"):
                await transaction.insert(database.chats, a_chat(id=some_id(9)))
            await transaction.commit()

    async with database.begin() as giving_up:
        async with giving_up.statement("update"):
            await giving_up.update(database.chats, a_chat(deal_id=some_id(90)))
        taking = asyncio.create_task(take())
        await let_everybody_run()
        assert not taking.done()
        if commits:
            await giving_up.commit()
    await asyncio.wait({taking})
    owner = database.chats.find(database.chat_of_deal, DEAL_ID)
    assert owner is not None
    assert owner.id == (some_id(9) if commits else CHAT_ID)
    assert isinstance(taking.exception(), type(None) if commits else ConstraintViolation)


async def test_unique_value_freed_by_a_savepoint_is_had_at_once(database: MessengerDatabase) -> None:
    async with database.begin() as first, database.begin() as second:
        with suppress(LookupError):
            async with first.savepoint():
                async with first.statement("insert"):
                    await first.insert(database.chats, a_chat())
                raise LookupError
        async with second.statement("insert"):
            await second.insert(database.chats, a_chat(id=some_id(9)))


async def test_row_is_replaced_within_its_own_transaction(database: MessengerDatabase) -> None:
    async with database.begin() as transaction:
        async with transaction.statement("write"):
            await transaction.insert(database.chats, a_chat())
            await transaction.update(database.chats, a_chat(deal_id=some_id(90)))
            await transaction.insert(database.chats, a_chat(id=some_id(9)))
        await transaction.commit()
    assert len(database.rows(database.chats)) == 2


async def test_failed_savepoint_brings_back_what_was_written_before_it(database: MessengerDatabase) -> None:
    database.put(database.chats, a_chat())
    async with database.begin() as transaction:
        await rename(database, transaction, " first")
        with suppress(LookupError):
            async with transaction.savepoint():
                await rename(database, transaction, " second")
                raise LookupError
        await transaction.commit()
    assert [chat.title for chat in database.rows(database.chats)] == ["Flat 12 first"]


async def test_deleted_row_is_gone_with_the_commit_and_its_values_are_free(
    database: MessengerDatabase,
) -> None:
    database.put(database.outbox, an_outbox_row())
    async with database.begin() as transaction:
        async with transaction.statement("delete"):
            assert await transaction.delete(database.outbox, 1)
            assert not await transaction.delete(database.outbox, 1)
            await transaction.insert(database.outbox, an_outbox_row())
            assert await transaction.delete(database.outbox, 1)
        assert len(database.rows(database.outbox)) == 1
        await transaction.commit()
    assert database.rows(database.outbox) == []
    database.put(database.outbox, an_outbox_row())


async def test_outbox_ids_are_given_at_insertion_and_lost_by_a_rollback(database: MessengerDatabase) -> None:
    async with database.begin() as first, database.begin() as second, database.begin() as third:
        for transaction in (first, second, third):
            assert await MemoryOutbox(database, transaction).add(a_message())
        await third.commit()
        await first.commit()
    assert [row.id for row in database.rows(database.outbox)] == [3, 1]


# Faults


@pytest.mark.parametrize("phase", Phase)
async def test_commit_is_carried_out_exactly_when_its_request_arrives(
    database: MessengerDatabase, phase: Phase
) -> None:
    switch = ScriptedSwitch()
    switch.at("commit", phase, GONE)

    async def write() -> None:
        async with database.begin(switch) as transaction:
            async with transaction.statement("insert"):
                await transaction.insert(database.chats, a_chat())
            await transaction.commit()

    with pytest.raises(DatabaseUnavailable):
        await write()
    assert len(database.rows(database.chats)) == (phase is Phase.ANSWERED)
    assert (database.open_transactions, database.locks.held) == (0, 0)


async def test_commit_that_failed_is_not_made_good_by_another_one(database: MessengerDatabase) -> None:
    switch = ScriptedSwitch()
    switch.at("commit", Phase.SENT, GONE)
    async with database.begin(switch) as transaction:
        async with transaction.statement("insert"):
            await transaction.insert(database.chats, a_chat())
        with pytest.raises(DatabaseUnavailable):
            await transaction.commit()
        with pytest.raises(RowRolledBack):
            await transaction.commit()
    assert database.rows(database.chats) == []


async def test_rollback_without_an_answer_happens_and_hides_no_error(database: MessengerDatabase) -> None:
    switch = ScriptedSwitch()
    switch.at("rollback", Phase.SENT, GONE)

    async def fail() -> None:
        async with database.begin(switch) as transaction:
            async with transaction.statement("insert"):
                await transaction.insert(database.chats, a_chat())
            raise LookupError

    with pytest.raises(LookupError):
        await fail()
    assert (database.open_transactions, database.locks.held) == (0, 0)


async def test_transaction_that_is_over_takes_no_statement(database: MessengerDatabase) -> None:
    async with database.begin() as transaction:
        await transaction.commit()
        with pytest.raises(RuntimeError):
            async with transaction.statement("late"):
                pass
        with pytest.raises(RuntimeError):
            await transaction.commit()


async def test_transaction_takes_one_statement_at_a_time(database: MessengerDatabase) -> None:
    async with database.begin() as transaction:
        async with transaction.statement("one"):
            with pytest.raises(RuntimeError):
                async with transaction.statement("two"):
                    pass
        async with transaction.statement("three"):
            pass


async def test_open_savepoint_is_not_committed(database: MessengerDatabase) -> None:
    async with database.begin() as transaction, transaction.savepoint():
        with pytest.raises(RuntimeError):
            await transaction.commit()


async def test_swallowed_error_of_a_statement_fails_its_savepoint(database: MessengerDatabase) -> None:
    database.put(database.chats, a_chat())

    async def collide(transaction: Transaction) -> None:
        async with transaction.savepoint():
            with suppress(ConstraintViolation):
                async with transaction.statement("insert"):
                    await transaction.insert(database.chats, a_chat(id=some_id(9)))

    async with database.begin() as transaction:
        with pytest.raises(RowRolledBack):
            await collide(transaction)
        with pytest.raises(RowRolledBack):
            await transaction.commit()
