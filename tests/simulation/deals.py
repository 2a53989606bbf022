"""Deals in every state in which a history may begin, and who deals with them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import cache, partial
from typing import Any, Final
from uuid import UUID

from attrs import evolve
from messenger_jobs.adapters.memory.provision_rows import put_provision
from messenger_jobs.adapters.memory.schema import OutboxRow
from messenger_jobs.application.integration_events import deal_chat_status_changed
from messenger_jobs.application.provision_created_deal import CreatedDeal
from messenger_jobs.domain.chat import Chat, Member, Participant
from messenger_jobs.domain.deal_chat_provision import (
    DealChatProvision,
    DealChatStatusChanged,
    ProvisionStatus,
)
from messenger_jobs.domain.retry_schedule import RetrySchedule

from tests.simulation.applications import (
    Pace,
    chat_job,
    deal_created,
    relay,
    requeue_dead_messages,
    requeue_provisions,
)
from tests.simulation.choices import Choices
from tests.simulation.names import CHAT, CORRELATION, DEAL, PARTICIPANT, PROVISION, USER, id_of
from tests.simulation.process import Process
from tests.simulation.simulation import Person, Simulation
from tests.simulation.world import MAX_ATTEMPTS, World
from tests.support.builders import NOW, a_chat, a_member, a_participant, a_provision

MEMBERS: Final = (a_member(id_of(USER, 1), "Buyer"), a_member(id_of(USER, 2), "Seller"))
GUEST: Final = id_of(USER, 9)


@cache  # rows are values: histories can share them
def _provision(number: int, **changes: Any) -> DealChatProvision:
    due_at = NOW - timedelta(seconds=number)
    stuck = a_provision(
        id=id_of(PROVISION, number), deal_id=id_of(DEAL, number), members=MEMBERS, next_attempt_at=due_at
    )
    return evolve(stuck, **changes)


@cache
def _chat(number: int, **changes: Any) -> Chat:
    return evolve(a_chat(id=id_of(CHAT, number), deal_id=id_of(DEAL, number)), **changes)


def _tried(attempts: int) -> dict[str, Any]:
    schedule = RetrySchedule(attempts=attempts, next_attempt_at=NOW, last_error="ProvisionGuard:NO_MEMBERS")
    return {"status": ProvisionStatus.FAILED, "schedule": schedule, "version": attempts}


def stuck(world: World, number: int) -> None:
    put_provision(world.database, _provision(number))


def failed_once(world: World, number: int) -> None:
    put_provision(world.database, _provision(number, **_tried(1)))


def without_members(world: World, number: int) -> None:
    put_provision(world.database, _provision(number, members=()))
    world.refusable.add(id_of(DEAL, number))


def without_title(world: World, number: int) -> None:
    put_provision(world.database, _provision(number, title=" ", **_tried(MAX_ATTEMPTS - 1)))
    world.refusable.add(id_of(DEAL, number))


def with_a_chat(world: World, number: int) -> None:
    """Somebody joined it by another way, and a member has left it."""
    put_provision(world.database, _provision(number))
    _put_chat(world, number)


def with_an_archived_chat(world: World, number: int) -> None:
    put_provision(world.database, _provision(number))
    _put_chat(world, number, status="Archived")


def with_a_chat_of_another_kind(world: World, number: int) -> None:
    put_provision(world.database, _provision(number))
    _put_chat(world, number, kind="Group")


def not_yet_stuck(world: World, number: int) -> None:
    put_provision(world.database, _provision(number, updated_at=NOW))


def ready(world: World, number: int) -> None:
    _put_chat(world, number)
    chat_id = id_of(CHAT, number)
    for member in MEMBERS:
        there = [each for each in world.database.rows(world.database.participants) if each.chat_id == chat_id]
        if member.user_id not in {each.user_id for each in there}:
            _put_participant(world, number, member)
    provision = _provision(number, status=ProvisionStatus.READY, chat_id=chat_id)
    put_provision(world.database, provision)
    _put_message(world, provision)


def poison(world: World, number: int) -> None:
    provision = _provision(number, members=(), **_tried(MAX_ATTEMPTS))
    world.refusable.add(provision.deal_id)
    put_provision(world.database, provision)
    _put_message(world, provision)


def ready_after_poison(world: World, number: int) -> None:
    """An operator has let it start over, and the broker has not been told of either yet."""
    _put_message(world, _provision(number, **_tried(MAX_ATTEMPTS)), event=30)
    ready(world, number)


def not_told_of(world: World, number: int) -> None:
    """Only its message is on its way."""
    del world, number


STATES: Final[tuple[tuple[int, Callable[[World, int], None]], ...]] = (
    (4, stuck),
    (2, not_told_of),
    (2, failed_once),
    (2, with_a_chat),
    (2, without_members),
    (1, without_title),
    (1, with_an_archived_chat),
    (1, with_a_chat_of_another_kind),
    (1, not_yet_stuck),
    (1, ready),
    (1, poison),
    (1, ready_after_poison),
)
"""Each with its weight."""


def _put_chat(world: World, number: int, **changes: Any) -> None:
    chat = _chat(number, **changes)
    world.database.put(world.database.chats, chat)
    if (chat.kind, chat.status) != ("Deal", "Active"):
        world.refusable.add(id_of(DEAL, number))
    _put_participant(world, number, Member(user_id=GUEST, role="Guest"))
    _put_participant(world, number, MEMBERS[0], left_at=NOW - timedelta(hours=1))


def _put_participant(world: World, number: int, member: Member, **changes: Any) -> None:
    id_ = id_of(PARTICIPANT, 10 * number + member.user_id.int % 10)
    participant = a_participant(member.user_id, member.role, id=id_, chat_id=id_of(CHAT, number))
    world.database.put(world.database.participants, evolve(participant, **changes))


def _put_message(world: World, provision: DealChatProvision, *, event: int = 0) -> None:
    changed = DealChatStatusChanged(
        deal_id=provision.deal_id,
        chat_id=provision.chat_id,
        status=provision.status,
        occurred_at=provision.updated_at,
    )
    event_id = id_of(CORRELATION, event + provision.id.int % 100)
    message = deal_chat_status_changed(changed, event_id=event_id, correlation_id=event_id)
    row = OutboxRow(id=world.database.next_outbox_id(), message=message, created_at=NOW)
    world.database.put(world.database.outbox, row)


def created(number: int, *, members: tuple[Member, ...] = MEMBERS) -> CreatedDeal:
    """The message about a deal."""
    message_id = id_of(CORRELATION, 50 + number)
    return CreatedDeal(
        deal_id=id_of(DEAL, number),
        title="Flat 12",
        project_id=None,
        deal_tenant_id=None,
        members=members,
        event_id=message_id,
        correlation_id=message_id,
    )


def deals(simulation: Simulation, choices: Choices) -> None:
    """One to three deals, two runners of the job, the consumer, an operator, and the chats' own people."""
    world = simulation.world
    count = 1 + choices.pick((5, 4, 3))
    for number in range(1, count + 1):
        state = choices.pick([weight for weight, _ in STATES])
        STATES[state][1](world, number)
    pace = Pace(
        batch_size=(100, 1, 2)[choices.pick((2, 1, 1))],
        lanes=1 + choices.pick((3, 1)),
        # Longer than a lock may be held: then nothing but the lock itself ends a cycle.
        max_run=(timedelta(minutes=3), timedelta(hours=1))[choices.pick((2, 1))],
    )
    job = chat_job(pace)
    members = (MEMBERS, MEMBERS, ())[choices.pick((4, 1, 1))]
    if not members:
        world.refusable.add(id_of(DEAL, 1))
    applications = [
        ("chat-job 1", job),
        ("chat-job 2", job),
        ("deal-created 1", deal_created(created(1, members=members))),
        ("deal-created 2", deal_created(created(count))),
        ("relay 1", relay(batch_size=(500, 1, 2)[choices.pick((2, 1, 1))])),
        ("relay 2", relay()),
        ("requeue-dead", requeue_dead_messages()),
        ("requeue-provisions", requeue_provisions(())),
        (
            "requeue-provisions of all",
            requeue_provisions(tuple(id_of(PROVISION, n) for n in range(1, count + 1))),
        ),
    ]
    simulation.processes = [
        Process(name, number, world, application)
        for number, (name, application) in enumerate(applications, 1)
    ]
    for number in range(1, count + 1):
        simulation.people += _people(world, number)


def _people(world: World, number: int) -> list[Person]:
    deal_id, database = id_of(DEAL, number), world.database

    def create() -> None:
        if _chat_of(world, deal_id) is None:
            database.put(database.chats, _chat(number))

    def join() -> None:
        chat = _chat_of(world, deal_id)
        if chat is not None and _participant_of(world, chat, GUEST) is None:
            id_ = id_of(PARTICIPANT, 10 * number + 9)
            database.put(database.participants, a_participant(GUEST, "Guest", id=id_, chat_id=chat.id))

    def leave() -> None:
        chat = _chat_of(world, deal_id)
        member = None if chat is None else _participant_of(world, chat, MEMBERS[0].user_id)
        if member is not None and member.left_at is None:
            database.put(database.participants, evolve(member, left_at=world.clock.now()))

    def archive_or_revive() -> None:
        chat = _chat_of(world, deal_id)
        if chat is not None:
            world.refusable.add(deal_id)
            status = "Archived" if chat.status == "Active" else "Active"
            database.put(database.chats, evolve(chat, status=status, version=chat.version + 1))

    return [
        Person(f"somebody creates the chat of deal {number}", create),
        Person(f"a guest joins the chat of deal {number}", join),
        Person(f"a member leaves the chat of deal {number}", leave),
        Person(f"somebody corrects the title of deal {number}", partial(_correct_title, world, deal_id)),
        Person(f"the chat of deal {number} is archived or revived", archive_or_revive),
    ]


def _correct_title(world: World, deal_id: UUID) -> None:
    provisions = world.database.rows(world.database.provisions)
    row = next((each for each in provisions if each.deal_id == deal_id and each.status != "Ready"), None)
    if row is not None:
        corrected = evolve(row, title="Flat 13", version=row.version + 1)
        world.database.put(world.database.provisions, corrected)


def _chat_of(world: World, deal_id: UUID) -> Chat | None:
    chats = world.database.rows(world.database.chats)
    return next((chat for chat in chats if chat.deal_id == deal_id), None)


def _participant_of(world: World, chat: Chat, user_id: UUID) -> Participant | None:
    participants = world.database.rows(world.database.participants)
    return next((each for each in participants if (each.chat_id, each.user_id) == (chat.id, user_id)), None)
