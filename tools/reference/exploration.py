"""Finds out what an aggregate's transitions do, by making them from the first states on, while new ones appear."""

from __future__ import annotations

import inspect
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Generic, TypeVar

from attrs import evolve, frozen
from messenger_jobs.domain.errors import IllegalTransition

Aggregate = TypeVar("Aggregate")

_RETURNED: Final = re.compile(r"(?:tuple\[)?(\w+)")


@frozen
class Step:
    """A transition that the domain makes; `event` is what the outside is told of it, if anything."""

    origin: str
    name: str
    event: str | None
    end: str


@frozen(kw_only=True)
class Machine(Generic[Aggregate]):
    """The first states, what the transitions take by parameter name, and what a picture of it tells apart."""

    first: Iterable[Aggregate]
    arguments: Mapping[str, object]
    state: Callable[[Aggregate], str]
    event: Callable[[Any], str]
    may_go_on: Callable[[Aggregate], bool]

    def steps(self) -> list[Step]:
        """Every step from every state that can be reached, each once, in the order of its discovery."""
        waiting = deque(self.first)
        known = set(waiting)
        made: dict[Step, None] = {}
        while waiting:
            before = waiting.popleft()
            for name in transitions(type(before)):
                for after, event in self._made(before, name):
                    told = None if event is None else self.event(event)
                    made[Step(self.state(before), name, told, self.state(after))] = None
                    if after not in known and self.may_go_on(after):
                        known.add(after)
                        waiting.append(after)
        return list(made)

    def _made(self, before: Aggregate, name: str) -> Iterable[tuple[Aggregate, object]]:
        transition = getattr(before, name)
        parameters = inspect.signature(transition).parameters
        required = [key for key, parameter in parameters.items() if parameter.default is parameter.empty]
        try:
            result: Any = transition(**{key: self.arguments[key] for key in required})
        except IllegalTransition:
            return
        after, event = result if isinstance(result, tuple) else (result, None)
        yield evolve(after, version=0), event  # else no state would ever come again


def transitions(aggregate: type) -> list[str]:
    """Names of the methods that return the aggregate's next value, alone or with an event."""
    methods = inspect.getmembers(aggregate, inspect.isfunction)
    return [
        name
        for name, method in methods
        if not name.startswith("_") and _returned(method) == aggregate.__name__
    ]


def _returned(method: Callable[..., object]) -> str | None:
    match = _RETURNED.match(str(inspect.signature(method).return_annotation))
    return None if match is None else match[1]
