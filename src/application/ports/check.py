"""Whether what the jobs need is there and set up as they need it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

from attrs import frozen


class Verdict(StrEnum):
    """What became of looking at one thing."""

    OK = "ok"
    FAILED = "failed"
    SKIPPED = "skipped"


@frozen(kw_only=True)
class CheckedItem:
    """One thing that was looked at, or could not be, with one sentence that says what is the matter.

    ``code`` is stable and set where the verdict is ``FAILED``. Neither holds an address, a secret or personal data.
    """

    item: str
    verdict: Verdict
    sentence: str
    code: str | None = None


class Check(Protocol):
    """Looks at one system, reading only, in bounded time."""

    async def __call__(self) -> Sequence[CheckedItem]:
        """What was found, item by item, always the same ones. Raises nothing but cancellation."""
        ...


def ok(item: str, sentence: str) -> CheckedItem:
    """It is as it must be."""
    return CheckedItem(item=item, verdict=Verdict.OK, sentence=sentence)


def failed(item: str, sentence: str, code: str) -> CheckedItem:
    """Something must be done about it."""
    return CheckedItem(item=item, verdict=Verdict.FAILED, sentence=sentence, code=code)


def skipped(item: str, sentence: str) -> CheckedItem:
    """It was not looked at, for the reason in the sentence."""
    return CheckedItem(item=item, verdict=Verdict.SKIPPED, sentence=sentence)


@frozen
class SkippedCheck:
    """Stands for a check of something that is not in use."""

    _item: str
    _reason: str

    async def __call__(self) -> Sequence[CheckedItem]:
        """See `Check`."""
        return [skipped(self._item, self._reason)]
