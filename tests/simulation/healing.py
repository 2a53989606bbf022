"""After a history everything is repaired, and the system must bring all rows to an end by itself."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from messenger_jobs.domain.recording_finalize import FinalizeStatus

from tests.simulation.applications import chat_job, recording_job, relay
from tests.simulation.names import named
from tests.simulation.process import Process
from tests.simulation.simulation import Simulation
from tests.simulation.world import MAX_ATTEMPTS, PROVISIONING_RULES

ROUNDS: Final = 4 * (MAX_ATTEMPTS + 2)
"""More than enough cycles for every row to use up its attempts one after another."""


def heal(simulation: Simulation) -> None:
    """Hold the system against what must be the case in the end. Stops at the first violation."""
    simulation.finish_runs()
    if simulation.violations:
        return
    simulation.check_leftovers()
    world = simulation.world
    world.healed = True
    for person in simulation.people:
        if "session" in person.name:
            simulation.act(person)
    for process in simulation.processes:
        if process.name.startswith("deal-created") and process.runs:
            simulation.start(process)  # until its offset is committed, a message is delivered again
    runners, relay_ = _runners(simulation), Process("relay healer", 93, world, relay())
    simulation.processes += [*runners, relay_]
    for _ in range(ROUNDS):
        due_at = _next_due(simulation)
        if due_at is None or simulation.violations:
            break
        if due_at > world.clock.now():
            simulation.pass_time(due_at - world.clock.now())
        for runner in runners:
            simulation.start(runner)
    simulation.start(relay_)
    _expect_everything_finished(simulation)
    _expect_everything_published(simulation)
    simulation.check_leftovers()


def _runners(simulation: Simulation) -> list[Process]:
    """One for each kind of row that there is."""
    world, seen = simulation.world, simulation.world.monitor.seen
    runners: list[Process] = []
    if seen.provisions:
        runners.append(Process("chat-job healer", 91, world, chat_job()))
    if seen.entries:
        runners.append(Process("recording-job healer", 92, world, recording_job()))
    return runners


def _next_due(simulation: Simulation) -> datetime | None:
    seen = simulation.world.monitor.seen
    times = [
        max(row.next_attempt_at, row.updated_at + PROVISIONING_RULES.stuck_after)
        if row.status == "Provisioning"
        else row.next_attempt_at
        for row in seen.provisions.values()
        if row.status != "Ready" and row.attempts < MAX_ATTEMPTS
    ]
    times += [
        entry.schedule.next_attempt_at
        for entry in seen.entries.values()
        if entry.status is FinalizeStatus.PENDING
    ]
    return min(times, default=None)


def _expect_everything_published(simulation: Simulation) -> None:
    monitor = simulation.world.monitor
    for row in monitor.seen.outbox.values():
        if row.published_at is None and row.dead_at is None:
            monitor.violate(8, "healed, every message is published", f"message {row.id} is not")


def _expect_everything_finished(simulation: Simulation) -> None:
    monitor = simulation.world.monitor
    claim = "healed, everything comes to its end"
    delivered = any(each.name.startswith("deal-created") and each.runs for each in simulation.processes)
    if delivered and not monitor.seen.provisions:
        monitor.violate(6, claim, "nobody knows of a deal whose message was delivered")
    for row in monitor.seen.provisions.values():
        if row.status != "Ready" and row.attempts < MAX_ATTEMPTS:
            monitor.violate(6, claim, f"{named(row.id)} is {row.status} after {row.attempts} attempts")
    for entry in monitor.seen.entries.values():
        if entry.status is FinalizeStatus.PENDING:
            monitor.violate(
                6, claim, f"{named(entry.id)} is pending after {entry.schedule.attempts} attempts"
            )
        recording = monitor.seen.recordings.get(entry.recording_id)
        if recording is not None and entry.status is FinalizeStatus.DONE and not recording.terminal:
            monitor.violate(6, claim, f"{named(recording.id)} is {recording.status}")
