"""The pages that are written from the code say what the code does now."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from attrs import evolve, frozen
from messenger_jobs.domain.errors import IllegalTransition

from tools.reference.exploration import Machine, Step, transitions
from tools.reference.machines import finalize_machine, provision_machine, recording_machine
from tools.reference.pages import DOCS, pages

MACHINES: dict[str, Machine[Any]] = {
    "provision": provision_machine(),
    "finalize row": finalize_machine(),
    "recording": recording_machine(),
}
ENDS = {"provision": {"Ready"}, "finalize row": {"Done"}, "recording": {"Available", "Failed"}}


@pytest.mark.parametrize("name", pages())
def test_page_is_up_to_date(name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == pages()[name], "run: make docs"


@pytest.mark.parametrize("name", MACHINES)
def test_every_transition_of_the_domain_is_in_the_picture(name: str) -> None:
    machine = MACHINES[name]
    (aggregate,) = {type(first) for first in machine.first}
    assert {step.name for step in machine.steps()} == set(transitions(aggregate))


@pytest.mark.parametrize("name", MACHINES)
def test_nothing_leads_out_of_an_end(name: str) -> None:
    steps = MACHINES[name].steps()
    assert {step.end for step in steps} - {step.origin for step in steps} == ENDS[name]


@frozen
class Door:
    """A small aggregate, to see the exploration at work."""

    open: bool = False
    slammed: int = 0
    version: int = 0

    def opened(self, *, now: datetime) -> Door:
        if self.open:
            raise IllegalTransition("it is open")
        return evolve(self, open=True, version=self.version + 1)

    def closed(self) -> tuple[Door, str]:
        if not self.open:
            raise IllegalTransition("it is closed")
        return evolve(self, open=False, slammed=self.slammed + 1, version=self.version + 1), "bang"

    def is_open(self) -> bool:
        return self.open


def test_exploration_finds_each_step_from_each_state_once() -> None:
    machine = Machine[Door](
        first=[Door()],
        arguments={"now": None},
        state=lambda door: "broken" if door.slammed > 1 else "open" if door.open else "closed",
        event=str,
        may_go_on=lambda door: door.slammed < 2,
    )
    assert machine.steps() == [
        Step("closed", "opened", None, "open"),
        Step("open", "closed", "bang", "closed"),
        Step("open", "closed", "bang", "broken"),
    ]
