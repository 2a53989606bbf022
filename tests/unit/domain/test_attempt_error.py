"""What may stand in ``last_error``: a class and a code, and nothing that could tell about people."""

from __future__ import annotations

import pytest
from messenger_jobs.domain.errors import (
    AttemptError,
    DomainError,
    GuardViolation,
    IllegalTransition,
    InvariantViolation,
)


@pytest.mark.parametrize(
    ("category", "code", "text"),
    [
        ("ProvisionGuard", "NO_MEMBERS", "ProvisionGuard:NO_MEMBERS"),
        ("Postgres", "22001", "Postgres:22001"),
        ("Postgres", "23505.ux_chats_deal_id", "Postgres:23505.ux_chats_deal_id"),
        ("a", "B-c", "a:B-c"),
    ],
)
def test_attempt_error_reads_as_class_and_code(category: str, code: str, text: str) -> None:
    assert str(AttemptError(category, code)) == text


@pytest.mark.parametrize(
    "part",
    [
        "",
        "NO MEMBERS",
        "NO_MEMBERS\n",
        "\tNO_MEMBERS",
        "https://storage.example/recordings/1",
        "user@example.com",
        "key=value",
        "recordings/1",
        "a:b",
        "Квартира",
        "NO_MEMBERS\x00",
        "+7(912)",
    ],
)
def test_anything_that_could_be_a_message_or_an_address_is_refused(part: str) -> None:
    with pytest.raises(InvariantViolation, match="class and a code"):
        AttemptError("ProvisionGuard", part)
    with pytest.raises(InvariantViolation, match="class and a code"):
        AttemptError(part, "NO_MEMBERS")


def test_attempt_error_fits_the_column_of_512_characters() -> None:
    assert len(str(AttemptError("C", "D" * 510))) == 512

    with pytest.raises(InvariantViolation, match="512"):
        AttemptError("C", "D" * 511)


def test_guard_violation_carries_its_code() -> None:
    violation = GuardViolation("NO_MEMBERS")

    assert violation.code == "NO_MEMBERS"
    assert str(violation) == "NO_MEMBERS"


@pytest.mark.parametrize("refusal", [GuardViolation("NO_MEMBERS"), IllegalTransition(), InvariantViolation()])
def test_whatever_the_domain_refuses_can_be_caught_as_one(refusal: Exception) -> None:
    assert isinstance(refusal, DomainError)
