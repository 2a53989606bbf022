"""What the domain refuses, and the short code under which a refusal is stored."""

from __future__ import annotations

import re
from typing import Final

from attrs import field, frozen

LAST_ERROR_MAX_LENGTH: Final = 512
_PART: Final = re.compile(r"[A-Za-z0-9_.-]+")


class DomainError(Exception):
    """Base of everything the domain refuses."""


class InvariantViolation(DomainError, ValueError):
    """A value that may not exist: an aggregate built from it would be invalid."""


class IllegalTransition(DomainError):
    """The state machine has no such step, for example out of ``Ready``."""


class GuardViolation(DomainError):
    """A rule of the aggregate refuses this attempt; ``code`` is stable and free of personal data."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@frozen
class AttemptError:
    """Why an attempt failed, stored in ``last_error`` as ``<Class>:<CODE>``.

    Both parts consist of letters, digits, ``_``, ``.`` and ``-``, so a message, a URL or a name cannot slip in.
    Raises `InvariantViolation` for anything else, or when the text exceeds 512 characters.
    """

    category: str = field()
    code: str = field()

    def __attrs_post_init__(self) -> None:
        if not (_PART.fullmatch(self.category) and _PART.fullmatch(self.code)):
            raise InvariantViolation(
                "an attempt error consists of a class and a code without spaces or punctuation"
            )
        if len(str(self)) > LAST_ERROR_MAX_LENGTH:
            raise InvariantViolation(f"an attempt error holds at most {LAST_ERROR_MAX_LENGTH} characters")

    def __str__(self) -> str:
        return f"{self.category}:{self.code}"
