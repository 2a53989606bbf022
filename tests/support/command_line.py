"""The commands over the memory adapters, in this process."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from attrs import define, field
from messenger_jobs.adapters.memory.clock import ManualClock
from messenger_jobs.adapters.memory.ids import SequentialIds
from messenger_jobs.adapters.memory.outbox_queue import MemoryOutboxQueue
from messenger_jobs.adapters.memory.provision_rows import committed_provision, put_provision
from messenger_jobs.adapters.memory.provisioning import MemoryProvisioningStore
from messenger_jobs.adapters.memory.provisioning_inspection import MemoryProvisioningInspection
from messenger_jobs.adapters.memory.schema import MessengerDatabase
from messenger_jobs.adapters.postgres.audit import Finding
from messenger_jobs.adapters.postgres.lock_holder import LockHolder
from messenger_jobs.application.ports.event_publisher import EventPublisher
from messenger_jobs.application.ports.provisioning import ProvisioningStore
from messenger_jobs.application.ports.run_lock import RunLocks
from messenger_jobs.application.rehearsal import UncontendedRunLocks
from messenger_jobs.domain.deal_chat_provision import DealChatProvision
from messenger_jobs.entrypoints.bootstrap import Application, bootstrap
from messenger_jobs.entrypoints.cli import app
from messenger_jobs.entrypoints.database import DatabaseUnusable
from messenger_jobs.entrypoints.settings import Settings
from typer.testing import CliRunner, Result

from tests.support.builders import NOW
from tests.support.captured_logs import captured_logs

URL: Final = "postgresql://worker:s3cr3t-word@db.example/messenger"


@define
class DatabaseInWords:
    """A `Database` that says what the test wants to hear."""

    unusable: DatabaseUnusable | None = None
    holder: LockHolder | None = None
    findings: Sequence[Finding] = ()
    audited_with: dict[str, object] = field(factory=dict[str, object])

    async def ping(self) -> None:
        if self.unusable is not None:
            raise self.unusable

    async def ensure_usable(self) -> None:
        await self.ping()

    async def lock_holder(self, job: str) -> LockHolder | None:
        del job
        return self.holder

    async def audit(
        self, *, max_attempts: int, max_finalize_attempts: int, since: datetime
    ) -> Sequence[Finding]:
        self.audited_with = {
            "max_attempts": max_attempts,
            "max_finalize_attempts": max_finalize_attempts,
            "since": since,
        }
        return self.findings


@define(slots=False)
class CommandLine:
    """Runs commands on `rows`, each with an application of its own, as processes do."""

    clock: ManualClock = field(factory=lambda: ManualClock(NOW))
    database: DatabaseInWords = field(factory=DatabaseInWords)
    locks: RunLocks = field(factory=UncontendedRunLocks)
    publisher: EventPublisher | None = None

    def __attrs_post_init__(self) -> None:
        self.rows = MessengerDatabase(self.clock)
        self.store: ProvisioningStore = MemoryProvisioningStore(self.rows)

    def put(self, *provisions: DealChatProvision) -> None:
        for provision in provisions:
            put_provision(self.rows, provision)

    def row(self, id: UUID) -> DealChatProvision:
        provision = committed_provision(self.rows, id)
        assert provision is not None
        return provision

    def compose(self, settings: Settings) -> AbstractAsyncContextManager[Application]:
        return bootstrap(
            settings,
            clock=self.clock,
            locks=self.locks,
            store=self.store,
            inspection=MemoryProvisioningInspection(self.rows),
            queue=MemoryOutboxQueue(self.rows),
            publisher=self.publisher,
            database=self.database,
            new_id=SequentialIds(1),
            spread=lambda: 0.0,
        )

    def run(self, *arguments: str, **settings: str) -> Result:
        """Run a command with the given settings, and `URL` unless they say otherwise."""
        others = dict.fromkeys((name for name in os.environ if name.startswith("MESSENGER_")), None)
        environment = others | {"MESSENGER_DATABASE_URL": URL, "MESSENGER_LOG_FORMAT": "json"} | settings
        with captured_logs():  # restores the logging that the command sets up
            return CliRunner().invoke(app, arguments, obj=self.compose, env=environment)

    def json(self, *arguments: str, **settings: str) -> Any:
        result = self.run(*arguments, "--json", **settings)
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)
