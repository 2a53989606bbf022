"""What an operator can set of the jobs, validated all at once."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from attrs import frozen

from ..domain.backoff import BackoffPolicy
from ..domain.deal_chat_provision import ProvisioningRules
from ..domain.errors import InvariantViolation
from ..domain.finalization import FinalizationRules
from .run_cycle import CycleLimits

MAX_ATTEMPTS_BOUND: Final = 50
"""The candidate query has one branch per attempt level, so the levels are bounded."""

LONGEST_LOCK_TTL: Final = timedelta(days=1)
"""A lock that outlives its hung holder for longer helps nobody, and PostgreSQL refuses time-outs above 24 days."""


class InvalidOptions(ValueError):
    """Every option at fault, each with one clear sentence that names it."""

    def __init__(self, problems: tuple[tuple[str, str], ...]) -> None:
        super().__init__("; ".join(f"{name} {problem}" for name, problem in problems))
        self.problems = problems


@frozen(kw_only=True)
class JobOptions:
    """What every periodic job lets an operator set. Raises `InvalidOptions` naming every option out of bounds."""

    polling_interval: timedelta = timedelta(seconds=60)
    batch_size: int = 100
    max_attempts: int = 8
    max_run_duration: timedelta = timedelta(minutes=3)
    lock_ttl: timedelta = timedelta(minutes=5)
    backoff_base: timedelta = timedelta(minutes=1)
    backoff_factor: float = 2.0
    backoff_cap: timedelta = timedelta(minutes=15)
    backoff_jitter: float = 0.2
    concurrency: int = 4

    def __attrs_post_init__(self) -> None:
        problems = tuple(self._problems())
        if problems:
            raise InvalidOptions(problems)

    @property
    def backoff(self) -> BackoffPolicy:
        """What the backoff options come to."""
        return BackoffPolicy(
            base=self.backoff_base,
            factor=self.backoff_factor,
            cap=self.backoff_cap,
            jitter=self.backoff_jitter,
        )

    @property
    def limits(self) -> CycleLimits:
        """What a cycle needs of them: while ``concurrency`` rows are being written, as many are made ready."""
        return CycleLimits(
            batch_size=self.batch_size,
            max_run_duration=self.max_run_duration,
            lanes=1 if self.concurrency == 1 else 2 * self.concurrency,
        )

    def _problems(self) -> Iterator[tuple[str, str]]:
        for name in ("polling_interval", "max_run_duration", "lock_ttl"):
            if getattr(self, name) <= timedelta(0):
                yield name, "must be longer than 0 seconds"
        for name, most in (
            ("batch_size", 10_000),
            ("max_attempts", MAX_ATTEMPTS_BOUND),
            ("concurrency", 64),
        ):
            if not 1 <= getattr(self, name) <= most:
                yield name, f"must be between 1 and {most}"
        if self.lock_ttl <= self.max_run_duration:
            yield "lock_ttl", "must be longer than max_run_duration"
        if self.lock_ttl > LONGEST_LOCK_TTL:
            yield "lock_ttl", "must not be longer than 1d"
        yield from self._backoff_problems()

    def _backoff_problems(self) -> Iterator[tuple[str, str]]:
        if self.backoff_base <= timedelta(0):
            yield "backoff_base", "must be longer than 0 seconds"
        elif self.backoff_cap < self.backoff_base:
            yield "backoff_cap", "must not be shorter than backoff_base"
        try:
            BackoffPolicy(factor=self.backoff_factor)
        except InvariantViolation:
            yield "backoff_factor", "must be a finite number of at least 1"
        try:
            BackoffPolicy(jitter=self.backoff_jitter)
        except InvariantViolation:
            yield "backoff_jitter", "must be at least 0 and below 1"


@frozen(kw_only=True)
class ChatProvisionRetryOptions(JobOptions):
    """Options of ``chat-provision-retry``."""

    stuck_provisioning_after: timedelta = timedelta(minutes=5)

    @property
    def rules(self) -> ProvisioningRules:
        """What the domain needs of them."""
        return ProvisioningRules(
            max_attempts=self.max_attempts, stuck_after=self.stuck_provisioning_after, backoff=self.backoff
        )

    def _problems(self) -> Iterator[tuple[str, str]]:
        yield from JobOptions._problems(self)
        if self.stuck_provisioning_after < timedelta(0):
            yield "stuck_provisioning_after", "must not be negative"


@frozen(kw_only=True)
class RecordingFinalizeRetryOptions(JobOptions):
    """Options of ``recording-finalize-retry``.

    ``storage_timeout`` bounds one object's whole lookup. The schedule set by a claim is its lease, so the shortest
    possible first delay must exceed it.
    """

    concurrency: int = 8
    finalize_sla_timeout: timedelta = timedelta(minutes=30)
    storage_timeout: timedelta = timedelta(seconds=15)

    @property
    def rules(self) -> FinalizationRules:
        """What the domain needs of them."""
        return FinalizationRules(
            max_attempts=self.max_attempts,
            finalize_sla_timeout=self.finalize_sla_timeout,
            poll=self.polling_interval,
            backoff=self.backoff,
        )

    def _problems(self) -> Iterator[tuple[str, str]]:
        of_every_job = tuple(JobOptions._problems(self))
        yield from of_every_job
        if self.finalize_sla_timeout < timedelta(0):
            yield "finalize_sla_timeout", "must not be negative"
        if self.storage_timeout <= timedelta(0):
            yield "storage_timeout", "must be longer than 0 seconds"
        elif any(name.startswith("backoff_") for name, _ in of_every_job):
            return  # no first delay to compare with
        elif self.storage_timeout >= self.backoff.shortest_first_delay():
            yield (
                "storage_timeout",
                "must be shorter than the shortest first delay, backoff_base * (1 - backoff_jitter)",
            )


@frozen(kw_only=True)
class OutboxRelayOptions:
    """Options of ``outbox-relay``. Raises `InvalidOptions` naming every option out of bounds.

    ``send_timeout`` bounds one publishing, ``retention`` is how long published messages are kept.
    """

    polling_interval: timedelta = timedelta(seconds=1)
    batch_size: int = 500
    retention: timedelta = timedelta(days=7)
    send_timeout: timedelta = timedelta(seconds=30)

    def __attrs_post_init__(self) -> None:
        problems = tuple(self._problems())
        if problems:
            raise InvalidOptions(problems)

    @property
    def lock_ttl(self) -> timedelta:
        """The run lock's TTL: at least a minute, and three times the longest that a relay does not look at its lease.

        A lease is asked for when half its TTL has passed, and ends on this side a tenth before the TTL: in the 40 %
        between, a whole publishing or a whole wait must fit.
        """
        return 3 * max(timedelta(seconds=20), self.send_timeout, self.polling_interval)

    @property
    def backoff(self) -> BackoffPolicy:
        """Waits of the relay after trouble, and of a key whose message failed: from one poll up to half a minute."""
        return BackoffPolicy(
            base=self.polling_interval,
            factor=2.0,
            cap=max(timedelta(seconds=30), self.polling_interval),
            jitter=0.2,
        )

    @property
    def patience(self) -> timedelta:
        """Without a sign of life for longer a relay is stuck: its longest wait, a publishing, the database's limits."""
        return self.backoff.cap + self.send_timeout + timedelta(minutes=2)

    def _problems(self) -> Iterator[tuple[str, str]]:
        for name, most, written in (
            ("polling_interval", timedelta(hours=1), "1h"),
            ("retention", timedelta(days=3650), "3650d"),
            ("send_timeout", timedelta(minutes=10), "10m"),
        ):
            value: timedelta = getattr(self, name)
            if value <= timedelta(0):
                yield name, "must be longer than 0 seconds"
            elif value > most:
                yield name, f"must not be longer than {written}"
        if not 1 <= self.batch_size <= 10_000:
            yield "batch_size", "must be between 1 and 10000"
