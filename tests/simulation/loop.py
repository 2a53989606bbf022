"""An event loop without input, whose time is the simulation's: it runs what is ready, in order of arrival."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from contextvars import Context
from datetime import timedelta
from itertools import count
from typing import Any, TypeVar, TypeVarTuple

from messenger_jobs.adapters.memory.clock import ManualClock

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")


class NumberedTask(asyncio.Task[Result]):
    """A task whose hash is its number: asyncio keeps tasks in sets, whose order must not depend on addresses."""

    def __init__(self, number: int, coro: Coroutine[Any, Any, Result], **options: Any) -> None:
        self._number = number  # first of all, for asyncio takes the hash when the task is made
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self._number


class SimulationLoop(asyncio.AbstractEventLoop):
    """As much of an event loop as tasks, futures, locks and time-outs need; anything else is not implemented."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._ready: deque[asyncio.Handle] = deque()
        self._numbers = count(1)
        self._take_back: dict[asyncio.TimerHandle, Callable[[], None]] = {}
        self.complaints: list[BaseException | str] = []
        """What asyncio had to say about exceptions that nobody took."""

    @contextmanager
    def running(self) -> Generator[None]:
        """Be this thread's loop."""
        asyncio._set_running_loop(self)
        try:
            yield
        finally:
            asyncio._set_running_loop(None)

    def run_until_idle(self) -> None:
        """Run whatever is ready, and what becomes ready by that, until nothing is."""
        ready = self._ready
        while ready:
            handle = ready.popleft()
            if not handle.cancelled():
                handle._run()

    def call_soon(
        self,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """See asyncio."""
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """See asyncio."""
        handle = asyncio.TimerHandle(self.time() + delay, callback, args, self, context)

        def due() -> None:
            del self._take_back[handle]
            self._ready.append(handle)

        self._take_back[handle] = self._clock.call_later(timedelta(seconds=delay), due)
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """What a handle calls when it is cancelled."""
        if handle in self._take_back:
            self._take_back.pop(handle)()

    def time(self) -> float:
        """See asyncio."""
        return self._clock.monotonic()

    def create_future(self) -> asyncio.Future[Any]:
        """See asyncio."""
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override] # the base class wants as many overloads as there were versions
        self, coro: Coroutine[Any, Any, Result], **options: Any
    ) -> asyncio.Task[Result]:
        """See asyncio."""
        return NumberedTask(next(self._numbers), coro, loop=self, **options)

    def current_task(self) -> asyncio.Task[Any] | None:
        """Which task runs; asyncio by itself would first ask the operating system in which process it is."""
        return asyncio.current_task(self)

    def get_debug(self) -> bool:
        """See asyncio."""
        return False

    def is_running(self) -> bool:
        """See asyncio."""
        return True

    def is_closed(self) -> bool:
        """See asyncio."""
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Remember it: nothing is to be left behind."""
        self.complaints.append(context.get("exception") or str(context.get("message")))
