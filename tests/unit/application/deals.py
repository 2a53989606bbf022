"""Deals whose chats are to be provisioned, in the memory database, and the use cases on them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from attrs import define, field
from messenger_jobs.adapters.memory.provision_rows import committed_provision, put_provision
from messenger_jobs.adapters.memory.provisioning import MemoryProvisioningStore
from messenger_jobs.adapters.memory.schema import MessengerDatabase
from messenger_jobs.application.chat_provision_retry import ChatProvisionRetry
from messenger_jobs.application.cycle_report import AttemptReport, Cycle
from messenger_jobs.application.ports.outbox import OutboxMessage
from messenger_jobs.application.provision_deal_chat import ProvisionDealChat
from messenger_jobs.domain.chat import Chat, ChatEvent, Participant
from messenger_jobs.domain.deal_chat_provision import DealChatProvision, ProvisioningRules
from messenger_jobs.domain.provisioning import ProvisionSnapshot

from tests.support.builders import PROVISION_ID, RULES, some_id
from tests.unit.application.cycles import Bench, ScriptedSwitch

RUN_ID = some_id(77)


@define
class Deals(Bench):
    """A process whose store can be disturbed through `switch`."""

    rules: ProvisioningRules = RULES
    spread: Callable[[], float] = lambda: 0.0
    switch: ScriptedSwitch = field(factory=ScriptedSwitch)
    database: MessengerDatabase = field(init=False)
    store: MemoryProvisioningStore = field(init=False)
    provisioning: ProvisionDealChat = field(init=False)
    job: ChatProvisionRetry = field(init=False)
    as_of: datetime = field(init=False)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self.as_of = self.clock.now()
        self.database = MessengerDatabase(self.clock)
        self.store = MemoryProvisioningStore(self.database, switch=self.switch)
        self.provisioning = ProvisionDealChat(
            clock=self.clock, new_id=self.new_id, spread=self.spread, rules=self.rules
        )
        self.job = ChatProvisionRetry(store=self.store, provisioning=self.provisioning)

    def put(self, *things: DealChatProvision | Chat | Participant) -> None:
        for thing in things:
            match thing:
                case Chat():
                    self.database.put(self.database.chats, thing)
                case Participant():
                    self.database.put(self.database.participants, thing)
                case DealChatProvision():
                    put_provision(self.database, thing)

    def putting(self, *things: DealChatProvision | Chat | Participant) -> Callable[[], None]:
        """An action: somebody else commits these."""
        return lambda: self.put(*things)

    @property
    def cycle(self) -> Cycle:
        return Cycle(job=self.job.name, run_id=RUN_ID, as_of=self.as_of)

    async def read(self) -> list[ProvisionSnapshot]:
        return list(await self.job.candidates(as_of=self.as_of, after=None, limit=100))

    async def attempt(self) -> AttemptReport:
        """One attempt on the only row that is due."""
        (candidate,) = await self.read()
        return await self.job.attempt(candidate, self.cycle)

    @property
    def provision(self) -> DealChatProvision:
        provision = committed_provision(self.database, PROVISION_ID)
        assert provision is not None
        return provision

    @property
    def chats(self) -> list[Chat]:
        return self.database.rows(self.database.chats)

    @property
    def participants(self) -> list[Participant]:
        return self.database.rows(self.database.participants)

    @property
    def feed(self) -> list[ChatEvent]:
        return self.database.rows(self.database.chat_events)

    @property
    def messages(self) -> list[OutboxMessage]:
        return [row.message for row in self.database.rows(self.database.outbox)]

    @property
    def statuses_told(self) -> list[object]:
        return [message.payload["status"] for message in self.messages]

    def operations(self) -> list[str]:
        """What was asked of the database, without the answers."""
        return [step.operation for step in self.switch.steps if step.phase.value == "sent"]


MINUTE = timedelta(minutes=1)
