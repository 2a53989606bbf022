"""What every `RunLocks` must show."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import get_args

import pytest
from messenger_jobs.application.ports.run_lock import RunLease, RunLocks

from tests.contract.provisioning_cancellation import at_every_step
from tests.support.interruption import Moment, interrupt

JOB = "chat-provision-retry"


class RunLocksHarness(ABC):
    """Two processes' access to one lock server."""

    locks: RunLocks
    other: RunLocks

    @abstractmethod
    async def pass_time(self, part: float) -> None:
        """Let this part of the TTL pass, for the server and for both processes."""

    @abstractmethod
    async def end_session(self, name: str) -> None:
        """The server ends the session that holds the lock; nobody tells the holder."""

    @abstractmethod
    async def assert_nothing_left(self) -> None:
        """Fail if a lock is held, or a session or a connection is left open."""

    async def is_free(self, name: str = JOB) -> bool:
        """Whether the other process can have the lock."""
        async with self.other.try_acquire(name) as lease:
            return lease is not None


def held(lease: RunLease | None) -> RunLease:
    assert lease is not None, "somebody holds the lock"
    return lease


class RunLocksContract:
    """One holder a name, and none that does not know it for sure."""

    @pytest.fixture
    async def harness(self) -> RunLocksHarness:
        raise NotImplementedError("an adapter's subclass says what its harness is")

    async def test_held_lock_is_had_by_nobody_else(self, harness: RunLocksHarness) -> None:
        async with harness.locks.try_acquire(JOB) as lease:
            held(lease)
            assert not await harness.is_free()
            assert not await harness.is_free()
            async with harness.locks.try_acquire(JOB) as again:
                assert again is None
        assert await harness.is_free()
        await harness.assert_nothing_left()

    async def test_locks_of_different_names_are_independent(self, harness: RunLocksHarness) -> None:
        async with harness.locks.try_acquire(JOB), harness.locks.try_acquire("outbox-relay") as lease:
            held(lease)
            assert await harness.is_free("recording-finalize-retry")

    async def test_loser_does_not_free_the_lock(self, harness: RunLocksHarness) -> None:
        async with harness.locks.try_acquire(JOB) as lease:
            async with harness.other.try_acquire(JOB) as loser:
                assert loser is None
            assert await held(lease).confirm()
            assert not await harness.is_free()

    async def test_lock_ends_with_an_error_of_its_holder(self, harness: RunLocksHarness) -> None:
        with pytest.raises(LookupError):
            async with harness.locks.try_acquire(JOB):
                raise LookupError
        assert await harness.is_free()
        await harness.assert_nothing_left()

    async def test_new_lease_needs_no_confirmation(self, harness: RunLocksHarness) -> None:
        async with harness.locks.try_acquire(JOB) as taken:
            lease = held(taken)
            assert not lease.expired
            assert not lease.confirmation_due
            assert await lease.confirm()

    async def test_confirmation_is_due_after_half_of_the_ttl_and_extends_the_lease(
        self, harness: RunLocksHarness
    ) -> None:
        async with harness.locks.try_acquire(JOB) as taken:
            lease = held(taken)
            for _ in range(3):
                await harness.pass_time(0.6)
                assert lease.confirmation_due
                assert not lease.expired
                assert not await harness.is_free()
                assert await lease.confirm()
                assert not lease.confirmation_due

    async def test_holder_who_does_nothing_loses_the_lock_at_the_ttl(self, harness: RunLocksHarness) -> None:
        async with harness.locks.try_acquire(JOB) as taken:
            lease = held(taken)
            await harness.pass_time(1.1)
            assert lease.expired
            async with harness.other.try_acquire(JOB) as retaken:
                second = held(retaken)
                assert not await lease.confirm()
                assert await second.confirm()
        await harness.assert_nothing_left()

    async def test_holder_who_lost_the_lock_does_not_free_it_for_others(
        self, harness: RunLocksHarness
    ) -> None:
        async with harness.locks.try_acquire(JOB):
            await harness.pass_time(1.1)
            taking = harness.other.try_acquire(JOB)
            second = held(await taking.__aenter__())
        assert await second.confirm()
        async with harness.locks.try_acquire(JOB) as third:
            assert third is None
        await taking.__aexit__(None, None, None)
        assert await harness.is_free()

    async def test_lease_that_expired_is_never_confirmed_again(self, harness: RunLocksHarness) -> None:
        async with harness.locks.try_acquire(JOB) as taken:
            lease = held(taken)
            await harness.pass_time(1.1)
            assert [await lease.confirm() for _ in range(2)] == [False, False]
            assert lease.expired

    async def test_holder_whose_session_ended_learns_it_from_the_confirmation(
        self, harness: RunLocksHarness
    ) -> None:
        async with harness.locks.try_acquire(JOB) as taken:
            lease = held(taken)
            await harness.end_session(JOB)
            async with harness.other.try_acquire(JOB) as retaken:
                second = held(retaken)
                assert [await lease.confirm() for _ in range(2)] == [False, False]
                assert lease.expired
                assert await second.confirm()
        await harness.assert_nothing_left()

    async def test_cancelled_confirmation_is_none(self, harness: RunLocksHarness) -> None:
        async with harness.locks.try_acquire(JOB) as taken:
            lease = held(taken)

            async def cancelled_at(step: int) -> bool:
                async with harness.locks.try_acquire(f"{JOB} {step}") as one:
                    own = held(one)
                    reached = await interrupt(own.confirm(), at=step, moment="before the answer")
                    assert own.expired == reached
                    assert await own.confirm() != reached
                return reached

            assert await at_every_step(cancelled_at) > 0
            assert await lease.confirm()
        await harness.assert_nothing_left()

    @pytest.mark.parametrize("moment", get_args(Moment))
    async def test_cancelled_anywhere_the_lock_is_free(
        self, harness: RunLocksHarness, moment: Moment
    ) -> None:
        async def work() -> None:
            async with harness.locks.try_acquire(JOB) as lease:
                await held(lease).confirm()

        async def cancelled_at(step: int) -> bool:
            reached = await interrupt(work(), at=step, moment=moment)
            await harness.assert_nothing_left()
            assert await harness.is_free()
            await harness.assert_nothing_left()
            return reached

        assert await at_every_step(cancelled_at) > 1

    async def test_of_many_who_try_at_once_one_has_the_lock(self, harness: RunLocksHarness) -> None:
        inside = asyncio.Barrier(10)

        async def attempt(number: int) -> bool:
            locks = harness.locks if number % 2 else harness.other
            async with locks.try_acquire(JOB) as lease:
                await inside.wait()
                return lease is not None

        assert sum(await asyncio.gather(*map(attempt, range(10)))) == 1
