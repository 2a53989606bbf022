"""Cancels a coroutine exactly where it waits: at its n-th suspension, before or after what it waits for has come."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any, Literal

from attrs import define

Moment = Literal["before the answer", "after the answer", "twice"]


@define
class Interrupted:
    """Awaits `work`, and cancels the task that awaits it at suspension number `at` (1 is the first).

    Suspensions of tasks that `work` starts do not count. "twice" cancels at the next suspension as well, which is then
    one of the cleaning up.
    """

    work: Coroutine[Any, Any, object]
    at: int
    moment: Moment
    reached: bool = False

    def __await__(self) -> Generator[Any, Any, object]:
        task = asyncio.current_task()
        assert task is not None
        suspensions = 0
        errors: list[BaseException] = []
        while True:
            try:
                # Popped, not kept: with its traceback, the error holds whatever the work lets go of.
                waited_for = self.work.send(None) if not errors else self.work.throw(errors.pop())
            except StopIteration as end:
                return end.value
            suspensions += 1
            if suspensions == self.at or (self.moment == "twice" and suspensions == self.at + 1):
                self.reached = True
                if self.moment == "after the answer" and waited_for is not None:
                    waited_for.add_done_callback(lambda _: task.cancel())
                else:
                    task.cancel()
            try:
                yield waited_for
            except BaseException as raised:  # noqa: BLE001 - handed on to the work
                errors.append(raised)


async def interrupt(work: Coroutine[Any, Any, object], *, at: int, moment: Moment) -> bool:
    """Whether `work` had a suspension number `at`, and so was cancelled there; its own outcome does not matter."""
    interrupted = Interrupted(work, at, moment)

    async def awaiting() -> None:
        await interrupted

    await asyncio.wait({task := asyncio.create_task(awaiting())})
    if not task.cancelled() and (error := task.exception()) is not None:
        raise error
    return interrupted.reached
