"""What one attempt writes, within a statement that is under way."""

from __future__ import annotations

from attrs import evolve

from ...application.ports.errors import ChatAlreadyExists
from ...domain.chat import Chat, Participant
from ...domain.deal_chat_provision import DealChatProvision
from ...domain.provisioning import NewChat, Provisioned, ProvisionSnapshot, Verdict
from .database import Transaction
from .provision_rows import member_rows, provision_row
from .schema import MessengerDatabase
from .table import ConstraintViolation


async def insert_intent(
    database: MessengerDatabase, transaction: Transaction, provision: DealChatProvision
) -> bool:
    """Insert a provision with its members; False when its deal has one, and then nothing is written."""
    row, members = provision_row(provision), member_rows(provision)
    database.provisions.check(row)
    for member in members:
        database.members.check(member)
    if not await transaction.insert_unless_there(database.provisions, row, database.provision_of_deal):
        return False
    for member in members:
        await transaction.insert(database.members, member)
    return True


async def write_verdict(
    database: MessengerDatabase, transaction: Transaction, seen: ProvisionSnapshot, verdict: Verdict
) -> bool:
    """See `ProvisioningUnit.settle`."""
    row = await transaction.lock(database.provisions, seen.provision.id)
    if row is None or row.version != seen.provision.version:
        return False
    if seen.chat is not None and not await _lock_unmoved(database, transaction, seen.chat):
        return False
    if isinstance(verdict, Provisioned):
        if verdict.new_chat is not None:
            await _create(database, transaction, verdict.new_chat)
        # Everybody in the same order, so that two attempts on one chat wait for each other and not in a circle.
        for participant in sorted(verdict.participants, key=lambda participant: participant.user_id):
            await _join(database, transaction, participant)
    return await write_provision(database, transaction, verdict.provision)


async def write_provision(
    database: MessengerDatabase, transaction: Transaction, provision: DealChatProvision
) -> bool:
    """Write the next version of a provision; False when the one before it is not the stored one."""
    row = await transaction.lock(database.provisions, provision.id)
    if row is None or row.version != provision.version - 1:
        return False
    return await transaction.update(database.provisions, provision_row(provision))


async def _lock_unmoved(database: MessengerDatabase, transaction: Transaction, seen: Chat) -> bool:
    """Whether the chat is as it was seen; nobody archives it before this commits then."""
    if _moved(seen, transaction.get(database.chats, seen.id)):
        return False
    return not _moved(seen, await transaction.lock_shared(database.chats, seen.id))


def _moved(seen: Chat, now: Chat | None) -> bool:
    return now is None or (now.version, now.kind, now.status) != (seen.version, seen.kind, seen.status)


async def _create(database: MessengerDatabase, transaction: Transaction, new: NewChat) -> None:
    try:
        await transaction.insert(database.chats, new.chat)
    except ConstraintViolation as violation:
        if violation.constraint == database.chat_of_deal.name:
            raise ChatAlreadyExists from violation
        raise
    await transaction.insert(database.chat_events, evolve(new.feed_entry, data=dict(new.feed_entry.data)))


async def _join(database: MessengerDatabase, transaction: Transaction, participant: Participant) -> None:
    of_user = database.participant_of_user
    if await transaction.insert_unless_there(database.participants, participant, of_user):
        return
    known = transaction.find(database.participants, of_user, of_user.value(participant))
    now = None if known is None else await transaction.lock(database.participants, known.id)
    if now is not None and now.left_at is not None:
        await transaction.update(database.participants, evolve(now, role=participant.role, left_at=None))
