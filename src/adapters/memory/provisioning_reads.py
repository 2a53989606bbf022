"""What one statement reads for attempts to decide on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import cached_property
from typing import TypeVar
from uuid import UUID

from ...domain.chat import Chat, Participant
from ...domain.deal_chat_provision import DealChatProvision, ProvisioningRules
from ...domain.provisioning import ProvisionSnapshot
from .database import Transaction
from .provision_rows import provision_of
from .schema import MemberRow, MessengerDatabase, ProvisionRow

Row = TypeVar("Row")


class ProvisioningReads:
    """A transaction's view at one moment; made anew in every statement."""

    def __init__(self, database: MessengerDatabase, transaction: Transaction) -> None:
        self._database = database
        self._transaction = transaction

    def provisions(self) -> list[ProvisionRow]:
        """All of them."""
        return self._transaction.rows(self._database.provisions)

    def provision(self, row: ProvisionRow) -> DealChatProvision:
        """The row with its members."""
        return provision_of(row, self._members.get(row.id, ()))

    def chat_of(self, deal_id: UUID) -> tuple[Chat | None, tuple[Participant, ...]]:
        """The deal's chat and everybody known to it."""
        chat = self._transaction.find(self._database.chats, self._database.chat_of_deal, deal_id)
        known = self._participants.get(chat.id, []) if chat is not None else []
        return chat, tuple(sorted(known, key=lambda participant: participant.user_id))

    def snapshot(self, row: ProvisionRow) -> ProvisionSnapshot:
        """What an attempt decides on."""
        chat, participants = self.chat_of(row.deal_id)
        return ProvisionSnapshot(provision=self.provision(row), chat=chat, participants=participants)

    @cached_property
    def _members(self) -> dict[UUID, list[MemberRow]]:
        return _grouped(self._transaction.rows(self._database.members), lambda row: row.provision_id)

    @cached_property
    def _participants(self) -> dict[UUID, list[Participant]]:
        return _grouped(self._transaction.rows(self._database.participants), lambda row: row.chat_id)


def is_due(row: ProvisionRow, *, as_of: datetime, rules: ProvisioningRules) -> bool:
    """The domain's rule; it does not ask for members."""
    return provision_of(row, ()).is_due(as_of=as_of, rules=rules)


def _grouped(rows: Iterable[Row], key: Callable[[Row], UUID]) -> dict[UUID, list[Row]]:
    groups: defaultdict[UUID, list[Row]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return groups
