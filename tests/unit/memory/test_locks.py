"""Locks that several may share, against those that only one has."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Final

import pytest
from attrs import define, field
from messenger_jobs.adapters.memory.clock import ManualClock
from messenger_jobs.adapters.memory.locks import Locks
from messenger_jobs.application.ports.errors import RowRolledBack

KEY: Final = "row"
LONG: Final = timedelta(hours=1)


@define(eq=False)
class Owner:
    granted_keys: list[object] = field(factory=list[object])

    def granted(self, key: object) -> None:
        self.granted_keys.append(key)


@pytest.fixture
def locks() -> Locks:
    return Locks(ManualClock())


async def waiting(
    locks: Locks, owner: Owner, key: object = KEY, *, shared: bool = False
) -> asyncio.Task[None]:
    task = asyncio.create_task(locks.acquire(owner, key, timeout=LONG, shared=shared))
    await asyncio.sleep(0)
    assert not task.done()
    return task


def test_lock_is_shared_by_all_who_want_to_share_it_and_by_nobody_else(locks: Locks) -> None:
    one, two, three = Owner(), Owner(), Owner()
    assert locks.try_acquire(one, KEY, shared=True)
    assert locks.try_acquire(two, KEY, shared=True)
    assert not locks.try_acquire(three, KEY)
    assert [one.granted_keys, two.granted_keys, three.granted_keys] == [[KEY], [KEY], []]


def test_whoever_has_it_alone_shares_it_with_nobody(locks: Locks) -> None:
    one, two = Owner(), Owner()
    assert locks.try_acquire(one, KEY)
    assert locks.try_acquire(one, KEY, shared=True)
    assert not locks.try_acquire(two, KEY, shared=True)
    assert one.granted_keys == [KEY]


def test_only_one_who_shares_it_can_have_it_alone(locks: Locks) -> None:
    one, two = Owner(), Owner()
    assert locks.try_acquire(one, KEY, shared=True)
    assert locks.try_acquire(one, KEY)
    assert not locks.try_acquire(two, KEY, shared=True)
    locks.release(one, KEY)
    assert locks.held == 0


async def test_writer_waits_until_the_last_of_them_is_done(locks: Locks) -> None:
    one, two, writer = Owner(), Owner(), Owner()
    for owner in (one, two):
        assert locks.try_acquire(owner, KEY, shared=True)
    task = await waiting(locks, writer)
    locks.release(one, KEY)
    await asyncio.sleep(0)
    assert not task.done()
    locks.release(two, KEY)
    await task
    assert not locks.try_acquire(one, KEY, shared=True)


async def test_all_who_wait_to_share_it_have_it_at_once_up_to_the_next_writer(locks: Locks) -> None:
    holder, *sharing, writer = (Owner() for _ in range(4))
    assert locks.try_acquire(holder, KEY)
    tasks = [await waiting(locks, each, shared=True) for each in sharing]
    writing = await waiting(locks, writer)
    locks.release(holder, KEY)
    await asyncio.gather(*tasks)
    assert not writing.done()
    for each in sharing:
        locks.release(each, KEY)
    await writing
    locks.release(writer, KEY)
    assert locks.held == 0


async def test_of_two_who_share_it_and_want_it_alone_the_second_is_rolled_back(locks: Locks) -> None:
    one, two = Owner(), Owner()
    for owner in (one, two):
        assert locks.try_acquire(owner, KEY, shared=True)
    task = await waiting(locks, one)
    with pytest.raises(RowRolledBack) as error:
        await locks.acquire(two, KEY, timeout=LONG)
    assert error.value.code == "40P01"
    locks.release(two, KEY)
    await task
