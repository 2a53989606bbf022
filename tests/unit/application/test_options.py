from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from attrs import evolve
from messenger_jobs.application.options import (
    ChatProvisionRetryOptions,
    InvalidOptions,
    JobOptions,
    RecordingFinalizeRetryOptions,
)
from messenger_jobs.domain.backoff import BackoffPolicy
from messenger_jobs.domain.finalization import FinalizationRules

ZERO = timedelta(0)
ALL = [JobOptions, ChatProvisionRetryOptions, RecordingFinalizeRetryOptions]

every_job = pytest.mark.parametrize("options", ALL)


def problems(options: type[JobOptions], **changes: Any) -> list[str]:
    """The names of the options that are refused."""
    with pytest.raises(InvalidOptions) as invalid:
        options(**changes)
    assert all(name in str(invalid.value) for name, _ in invalid.value.problems)
    return [name for name, _ in invalid.value.problems]


@every_job
def test_defaults_are_valid(options: type[JobOptions]) -> None:
    assert options().polling_interval == timedelta(seconds=60)


@every_job
@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"polling_interval": ZERO}, "polling_interval"),
        ({"max_run_duration": ZERO}, "max_run_duration"),
        ({"batch_size": 0}, "batch_size"),
        ({"batch_size": 10_001}, "batch_size"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"max_attempts": 51}, "max_attempts"),
        ({"concurrency": 0}, "concurrency"),
        ({"concurrency": 65}, "concurrency"),
        ({"lock_ttl": timedelta(minutes=3)}, "lock_ttl"),
        ({"lock_ttl": timedelta(days=1, microseconds=1)}, "lock_ttl"),
        ({"backoff_base": ZERO}, "backoff_base"),
        ({"backoff_cap": timedelta(seconds=59)}, "backoff_cap"),
        ({"backoff_factor": 0.9}, "backoff_factor"),
        ({"backoff_factor": float("nan")}, "backoff_factor"),
        ({"backoff_factor": float("inf")}, "backoff_factor"),
        ({"backoff_jitter": -0.1}, "backoff_jitter"),
        ({"backoff_jitter": 1.0}, "backoff_jitter"),
        ({"backoff_jitter": float("nan")}, "backoff_jitter"),
        ({"backoff_jitter": float("inf")}, "backoff_jitter"),
    ],
    ids=str,
)
def test_option_out_of_bounds_is_named_alone(
    options: type[JobOptions], changes: dict[str, Any], named: str
) -> None:
    assert problems(options, **changes) == [named]


@every_job
@pytest.mark.parametrize(
    "changes",
    [
        {"batch_size": 1, "max_attempts": 1, "concurrency": 1},
        {"batch_size": 10_000, "max_attempts": 50, "concurrency": 64},
        {"lock_ttl": timedelta(minutes=3, microseconds=1)},
        {"lock_ttl": timedelta(days=1)},
        {"backoff_cap": timedelta(minutes=1), "backoff_factor": 1.0, "backoff_jitter": 0.0},
    ],
    ids=str,
)
def test_bounds_themselves_are_valid(options: type[JobOptions], changes: dict[str, Any]) -> None:
    options(**changes)


@every_job
def test_all_problems_are_named_at_once(options: type[JobOptions]) -> None:
    found = problems(
        options,
        polling_interval=ZERO,
        batch_size=0,
        max_attempts=0,
        max_run_duration=ZERO,
        lock_ttl=ZERO,
        backoff_base=ZERO,
        backoff_factor=0.0,
        backoff_jitter=2.0,
        concurrency=0,
    )
    assert set(found) == {
        "polling_interval",
        "batch_size",
        "max_attempts",
        "max_run_duration",
        "lock_ttl",
        "backoff_base",
        "backoff_factor",
        "backoff_jitter",
        "concurrency",
    }


@pytest.mark.parametrize(
    ("options", "changes", "sentence"),
    [
        (JobOptions, {"polling_interval": ZERO}, "polling_interval must be longer than 0 seconds"),
        (JobOptions, {"batch_size": 0}, "batch_size must be between 1 and 10000"),
        (JobOptions, {"max_attempts": 51}, "max_attempts must be between 1 and 50"),
        (JobOptions, {"concurrency": 65}, "concurrency must be between 1 and 64"),
        (JobOptions, {"lock_ttl": timedelta(seconds=1)}, "lock_ttl must be longer than max_run_duration"),
        (JobOptions, {"lock_ttl": timedelta(days=2)}, "lock_ttl must not be longer than 1d"),
        (JobOptions, {"backoff_base": ZERO}, "backoff_base must be longer than 0 seconds"),
        (JobOptions, {"backoff_cap": ZERO}, "backoff_cap must not be shorter than backoff_base"),
        (JobOptions, {"backoff_factor": 0.5}, "backoff_factor must be a finite number of at least 1"),
        (JobOptions, {"backoff_jitter": 1.0}, "backoff_jitter must be at least 0 and below 1"),
        (
            JobOptions,
            {"batch_size": 0, "backoff_jitter": 1.0},
            "batch_size must be between 1 and 10000; backoff_jitter must be at least 0 and below 1",
        ),
        (
            ChatProvisionRetryOptions,
            {"stuck_provisioning_after": -timedelta(seconds=1)},
            "stuck_provisioning_after must not be negative",
        ),
        (
            RecordingFinalizeRetryOptions,
            {"finalize_sla_timeout": -timedelta(seconds=1)},
            "finalize_sla_timeout must not be negative",
        ),
        (
            RecordingFinalizeRetryOptions,
            {"storage_timeout": ZERO},
            "storage_timeout must be longer than 0 seconds",
        ),
        (
            RecordingFinalizeRetryOptions,
            {"storage_timeout": timedelta(minutes=1)},
            "storage_timeout must be shorter than the shortest first delay, backoff_base * (1 - backoff_jitter)",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_problem_is_one_sentence_that_names_the_option(
    options: type[JobOptions], changes: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InvalidOptions) as invalid:
        options(**changes)
    assert str(invalid.value) == sentence


def test_negative_stuck_time_is_refused() -> None:
    assert problems(ChatProvisionRetryOptions, stuck_provisioning_after=-timedelta(seconds=1)) == [
        "stuck_provisioning_after"
    ]
    ChatProvisionRetryOptions(stuck_provisioning_after=ZERO)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"finalize_sla_timeout": -timedelta(seconds=1)}, "finalize_sla_timeout"),
        ({"storage_timeout": ZERO}, "storage_timeout"),
        # The lease of a claim is its first delay: at least 60 s * (1 - 0.2).
        ({"storage_timeout": timedelta(seconds=48)}, "storage_timeout"),
    ],
    ids=str,
)
def test_options_of_recordings_have_bounds_of_their_own(changes: dict[str, Any], named: str) -> None:
    assert problems(RecordingFinalizeRetryOptions, **changes) == [named]


def test_recording_may_be_looked_for_as_soon_as_its_session_ends() -> None:
    RecordingFinalizeRetryOptions(finalize_sla_timeout=ZERO)


def test_storage_timeout_just_below_the_shortest_delay_is_valid() -> None:
    RecordingFinalizeRetryOptions(storage_timeout=timedelta(seconds=47.9))


def test_rules_and_limits_are_what_was_set() -> None:
    options = ChatProvisionRetryOptions(
        batch_size=7,
        max_attempts=3,
        max_run_duration=timedelta(seconds=11),
        concurrency=2,
        stuck_provisioning_after=timedelta(seconds=13),
        backoff_base=timedelta(seconds=1),
        backoff_factor=3.0,
        backoff_cap=timedelta(seconds=9),
        backoff_jitter=0.5,
    )
    assert (options.limits.batch_size, options.limits.lanes) == (7, 4)
    assert options.limits.max_run_duration == timedelta(seconds=11)
    assert evolve(options, concurrency=1).limits.lanes == 1
    assert (options.rules.max_attempts, options.rules.stuck_after) == (3, timedelta(seconds=13))
    assert options.rules.backoff == BackoffPolicy(
        base=timedelta(seconds=1), factor=3.0, cap=timedelta(seconds=9), jitter=0.5
    )


def test_rules_of_recordings_are_what_was_set_and_poll_as_often_as_the_job() -> None:
    options = RecordingFinalizeRetryOptions(
        polling_interval=timedelta(seconds=5),
        max_attempts=2,
        finalize_sla_timeout=timedelta(minutes=7),
        backoff_base=timedelta(minutes=2),
    )
    assert options.rules == FinalizationRules(
        max_attempts=2,
        finalize_sla_timeout=timedelta(minutes=7),
        poll=timedelta(seconds=5),
        backoff=options.backoff,
    )
    assert options.backoff.base == timedelta(minutes=2)
