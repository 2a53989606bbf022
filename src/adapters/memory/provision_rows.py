"""Provisions as rows of the memory database, and back."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from ...domain.chat import Member
from ...domain.deal_chat_provision import DealChatProvision, ProvisionStatus
from ...domain.retry_schedule import RetrySchedule
from .schema import MemberRow, MessengerDatabase, ProvisionRow


def put_provision(database: MessengerDatabase, provision: DealChatProvision) -> None:
    """Commit a provision, new or in place of the one with its id, and its members; for setting up tests."""
    database.put(database.provisions, provision_row(provision))
    database.put(database.members, *member_rows(provision))


def committed_provision(database: MessengerDatabase, provision_id: UUID) -> DealChatProvision | None:
    """The committed provision with its members; for looking into tests."""
    row = database.row(database.provisions, provision_id)
    return None if row is None else provision_of(row, database.rows(database.members))


def provision_row(provision: DealChatProvision) -> ProvisionRow:
    """The row without the members."""
    return ProvisionRow(
        id=provision.id,
        deal_id=provision.deal_id,
        chat_id=provision.chat_id,
        title=provision.title,
        project_id=provision.project_id,
        deal_tenant_id=provision.deal_tenant_id,
        status=provision.status.value,
        attempts=provision.schedule.attempts,
        next_attempt_at=provision.schedule.next_attempt_at,
        last_error=provision.schedule.last_error,
        created_at=provision.created_at,
        updated_at=provision.updated_at,
        version=provision.version,
    )


def member_rows(provision: DealChatProvision) -> list[MemberRow]:
    """The rows of the members."""
    return [
        MemberRow(provision_id=provision.id, user_id=member.user_id, role=member.role)
        for member in provision.members
    ]


def provision_of(row: ProvisionRow, members: Iterable[MemberRow]) -> DealChatProvision:
    """The aggregate, with those of ``members`` that are its own."""
    own = sorted((member for member in members if member.provision_id == row.id), key=lambda own: own.user_id)
    return DealChatProvision(
        id=row.id,
        deal_id=row.deal_id,
        chat_id=row.chat_id,
        title=row.title,
        project_id=row.project_id,
        deal_tenant_id=row.deal_tenant_id,
        status=ProvisionStatus(row.status),
        schedule=RetrySchedule(
            attempts=row.attempts, next_attempt_at=row.next_attempt_at, last_error=row.last_error
        ),
        members=tuple(Member(user_id=member.user_id, role=member.role) for member in own),
        created_at=row.created_at,
        updated_at=row.updated_at,
        version=row.version,
    )


def place(row: ProvisionRow) -> tuple[datetime, UUID]:
    """Where the row stands in the order of the candidates."""
    return row.next_attempt_at, row.id
