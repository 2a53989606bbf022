"""Small worlds, in which everything that may happen can be tried out: every interleaving, with few faults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tests.simulation.applications import chat_job, deal_created, recording_job, relay, uploaded
from tests.simulation.deals import MEMBERS, created, poison, stuck, with_a_chat
from tests.simulation.names import RECORDING, id_of
from tests.simulation.process import Process
from tests.simulation.recordings import available_untold, never_uploaded, uploaded_unseen
from tests.simulation.simulation import Simulation

SmallWorld = Callable[[Simulation], list[Process]]
"""Puts one row, and gives the processes that will all have begun a run."""


def runners_and_consumer(simulation: Simulation) -> list[Process]:
    """A stuck deal, whose message is delivered late."""
    world = simulation.world
    stuck(world, 1)
    return [
        Process("chat-job 1", 1, world, chat_job()),
        Process("chat-job 2", 2, world, chat_job()),
        Process("deal-created 1", 3, world, deal_created(created(1))),
    ]


def consumers(simulation: Simulation) -> list[Process]:
    """A new deal, whose message is delivered twice at once."""
    world = simulation.world
    return [
        Process("deal-created 1", 1, world, deal_created(created(1))),
        Process("deal-created 2", 2, world, deal_created(created(1, members=MEMBERS[:1]))),
    ]


def runners_of_a_chat_that_is_there(simulation: Simulation) -> list[Process]:
    """A stuck deal that has its chat already, with a guest in it."""
    world = simulation.world
    with_a_chat(world, 1)
    return [
        Process("chat-job 1", 1, world, chat_job()),
        Process("chat-job 2", 2, world, chat_job()),
        Process("deal-created 1", 3, world, deal_created(created(1))),
    ]


def runners_and_recorder(simulation: Simulation) -> list[Process]:
    """An upload that nobody told of, until now."""
    world = simulation.world
    uploaded_unseen(world, 1)
    return [
        Process("recording-job 1", 1, world, recording_job()),
        Process("recording-job 2", 2, world, recording_job()),
        Process("recorder 1", 3, world, uploaded(id_of(RECORDING, 1))),
    ]


def runners_and_late_recorder(simulation: Simulation) -> list[Process]:
    """An upload that is not there when its time is over, and arrives nevertheless."""
    world = simulation.world
    never_uploaded(world, 1)
    return [
        Process("recording-job 1", 1, world, recording_job()),
        Process("recording-job 2", 2, world, recording_job()),
        Process("recorder 1", 3, world, uploaded(id_of(RECORDING, 1))),
    ]


def runners_of_an_untold_recording(simulation: Simulation) -> list[Process]:
    """An available recording of which nobody was told, and the recorder, who repeats himself."""
    world = simulation.world
    available_untold(world, 1)
    return [
        Process("recording-job 1", 1, world, recording_job()),
        Process("recording-job 2", 2, world, recording_job()),
        Process("recorder 1", 3, world, uploaded(id_of(RECORDING, 1))),
    ]


def relays(simulation: Simulation) -> list[Process]:
    """One message, two relays."""
    world = simulation.world
    poison(world, 1)
    return [Process("relay 1", 1, world, relay()), Process("relay 2", 2, world, relay())]


SMALL_WORLDS: Final[dict[str, SmallWorld]] = {
    each.__name__: each
    for each in (
        runners_and_consumer,
        consumers,
        runners_of_a_chat_that_is_there,
        runners_and_recorder,
        runners_and_late_recorder,
        runners_of_an_untold_recording,
        relays,
    )
}
