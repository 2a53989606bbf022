"""The defects that `seeded_bugs.py` puts: mistakes that systems like this one have really had."""

from __future__ import annotations

from typing import Final

from attrs import field, frozen

DOMAIN: Final = "src/domain"
APPLICATION: Final = "src/application"
MEMORY: Final = "src/adapters/memory"


@frozen
class Change:
    """A text that stands exactly once in its file, and what stands there instead."""

    path: str
    before: str
    after: str


@frozen
class Defect:
    """One mistake, and who besides the simulation may notice it."""

    name: str
    changes: tuple[Change, ...]
    tests: tuple[str, ...] = ()
    simulated: bool = field(default=True, kw_only=True)


DEFECTS: Final = (
    Defect(
        "the version guard of provisions is dropped",
        (
            Change(
                f"{MEMORY}/provisioning_writes.py",
                "if row is None or row.version != seen.provision.version:",
                "if row is None:",
            ),
            Change(
                f"{MEMORY}/provisioning_writes.py",
                "if row is None or row.version != provision.version - 1:",
                "if row is None:",
            ),
        ),
        ("tests/contract/test_memory.py",),
    ),
    Defect(
        "the version guard of recordings is dropped",
        (
            Change(
                f"{MEMORY}/finalization_writes.py",
                "if stored.version != recording.version - 1 or stored.status not in _IN_PROGRESS:",
                "if stored.version < 0:",
            ),
            Change(
                f"{MEMORY}/finalization_writes.py",
                "if stored.version != entry.version - 1 or stored.status is FinalizeStatus.DONE:",
                "if stored.version < 0:",
            ),
        ),
        ("tests/contract/test_finalization_store.py",),
    ),
    Defect(
        "a claim does not check again under the lock",
        (
            Change(
                f"{MEMORY}/provisioning.py",
                "            if row is None or not is_due(row, as_of=as_of, rules=rules):\n"
                "                return None\n"
                "            if self._transaction.try_lock",
                "            if row is None:\n                return None\n            if self._transaction.try_lock",
            ),
        ),
        ("tests/contract/test_memory.py",),
    ),
    Defect(
        "the outbox is written in a transaction of its own",
        (
            Change(
                f"{MEMORY}/provisioning.py",
                "            if message is not None:\n"
                "                await insert_message(self._database, transaction, message)\n"
                "            return True\n",
                "        if message is not None:\n"
                '            async with self._database.statement("settle", self._switch) as transaction:\n'
                "                await insert_message(self._database, transaction, message)\n"
                "        return True\n",
            ),
        ),
        ("tests/contract/test_memory.py",),
    ),
    Defect(
        "the slow path forgets the message",
        (
            Change(
                f"{APPLICATION}/provision_deal_chat.py",
                "                    await work.outbox.add(message)\n",
                "                    pass\n",
            ),
        ),
        ("tests/unit/application/test_provision_deal_chat.py",),
    ),
    Defect(
        "a stale lock is believed",
        (
            Change(
                f"{APPLICATION}/run_cycle.py",
                "        if lease.expired:\n            return self._lost()\n"
                "        if not lease.confirmation_due:\n            return True\n",
                "        if lease is not None:\n            return True\n",
            ),
        ),
        ("tests/unit/application/test_run_cycle.py",),
    ),
    Defect(
        "the answer that the lock is lost is not listened to",
        (
            Change(
                f"{APPLICATION}/run_cycle.py",
                "return await lease.confirm() or self._lost()",
                "return await lease.confirm() or True",
            ),
        ),
        ("tests/unit/application/test_run_cycle.py",),
    ),
    Defect(
        "an answer about the lock that comes too late is believed",
        (
            Change(
                f"{MEMORY}/run_locks.py",
                "        return held and not self.expired",
                "        return held",
            ),
        ),
        ("tests/unit/memory/test_run_locks.py",),
    ),
    Defect(
        "a deferred attempt is counted",
        (
            Change(
                f"{DOMAIN}/recording_finalize.py",
                "self.schedule.deferred(until=until)",
                "self.schedule.claimed(now=until, delay=timedelta(0))",
            ),
        ),
        ("tests/unit/domain/test_recording_finalize.py",),
    ),
    Defect(
        "a claim that a full disk kept from being settled stays counted",
        (
            Change(
                f"{APPLICATION}/recording_finalize_retry.py",
                "            await self._give_back(candidate, claimed, error, cycle)\n",
                "            del error\n",
            ),
        ),
        ("tests/unit/application/test_recording_finalize_retry.py",),
        simulated=False,
    ),
    Defect(
        "a claim that is given back stays counted",
        (Change(f"{DOMAIN}/retry_schedule.py", "attempts=self.attempts - 1, ", "attempts=self.attempts, "),),
        ("tests/unit/domain/test_retry_schedule.py",),
    ),
    Defect(
        "a cancellation is swallowed",
        (
            Change(
                f"{APPLICATION}/run_cycle.py",
                "            if asked_to_end():\n                raise\n",
                "",
            ),
        ),
        ("tests/unit/application/test_run_cycle.py",),
    ),
    Defect(
        "a request to stop is ignored",
        (
            Change(
                f"{APPLICATION}/run_cycle.py",
                "            if self.stop.requested:\n",
                "            if False:\n",
            ),
        ),
        ("tests/unit/application/test_run_cycle.py",),
    ),
    Defect(
        "a missing bucket is taken for a missing recording",
        (
            Change(
                f"{DOMAIN}/finalization.py",
                "            return release(\n"
                '                entry, AttemptError("Storage", evidence.code), given_back_to=given_back_to, now=now\n'
                "            )\n",
                '            return _lost(entry, recording, AttemptError("Storage", evidence.code), now=now)\n',
            ),
        ),
        ("tests/unit/domain/test_finalization.py",),
    ),
    Defect(
        "no answer is taken for a missing recording",
        (
            Change(
                f"{DOMAIN}/finalization.py",
                '            return fail(entry, AttemptError("Storage", evidence.code), now=now, rules=rules)\n',
                '            return _lost(entry, recording, AttemptError("Storage", evidence.code), now=now)\n',
            ),
        ),
        ("tests/unit/domain/test_finalization.py",),
    ),
    Defect(
        "the cursor is forgotten",
        (Change(f"{APPLICATION}/run_cycle.py", "after=self._cursor, ", "after=None, "),),
        ("tests/unit/application/test_run_cycle.py",),
    ),
    Defect(
        "a cycle selects by the time of each batch",
        (
            Change(
                f"{APPLICATION}/run_cycle.py",
                "as_of=self.cycle.as_of, after",
                "as_of=self.clock.now(), after",
            ),
        ),
        ("tests/unit/application/test_run_cycle.py",),
    ),
    Defect(
        "a clock that is set back schedules a row into its own cycle",
        (
            Change(
                f"{APPLICATION}/provision_deal_chat.py",
                "return now if not_before is None else max(now, not_before)",
                "return now",
            ),
        ),
        ("tests/unit/application/test_chat_provision_retry.py",),
    ),
    Defect(
        "attempts of provisions have no bound",
        (
            Change(
                f"{DOMAIN}/deal_chat_provision.py",
                "if self.schedule.exhausted(rules.max_attempts) or self.schedule.next_attempt_at > as_of:",
                "if self.schedule.next_attempt_at > as_of:",
            ),
            Change(
                f"{DOMAIN}/deal_chat_provision.py",
                "        self._ensure_open()\n        if self.schedule.exhausted(max_attempts):\n",
                "        self._ensure_open()\n        if False:\n",
            ),
        ),
        ("tests/unit/domain/test_provision_selection.py",),
    ),
    Defect(
        "attempts of recordings have no bound",
        (
            Change(
                f"{DOMAIN}/finalization.py",
                "    if claimed.schedule.exhausted(rules.max_attempts):\n",
                "    if False:\n",
            ),
            Change(
                f"{DOMAIN}/finalization.py",
                "    if entry.schedule.exhausted(rules.max_attempts):\n        # Its last",
                "    if False:\n        # Its last",
            ),
        ),
        ("tests/unit/domain/test_finalization.py",),
    ),
    Defect(
        "a failure is told before the last attempt",
        (
            Change(
                f"{DOMAIN}/deal_chat_provision.py",
                "        if not schedule.exhausted(max_attempts):\n            return provision, None\n",
                "",
            ),
        ),
        ("tests/unit/domain/test_deal_chat_provision.py",),
    ),
    Defect(
        "a chat tells twice that it was provisioned",
        (
            Change(
                f"{MEMORY}/provisioning_writes.py",
                "    await transaction.insert(database.chat_events, "
                "evolve(new.feed_entry, data=dict(new.feed_entry.data)))\n",
                "    entry = evolve(new.feed_entry, data=dict(new.feed_entry.data))\n"
                "    await transaction.insert(database.chat_events, entry)\n"
                "    await transaction.insert(database.chat_events, evolve(entry, id=new.chat.id))\n",
            ),
            Change(
                f"{MEMORY}/schema.py",
                "lambda row: row.chat_id if row.type == DEAL_CHAT_PROVISIONED else None",
                "lambda row: row.id if row.type == DEAL_CHAT_PROVISIONED else None",
            ),
        ),
        ("tests/contract/test_memory.py",),
    ),
    Defect(
        "reconciliation removes whoever is not wanted",
        (
            Change(
                f"{MEMORY}/provisioning_writes.py",
                "            await _join(database, transaction, participant)\n    return",
                "            await _join(database, transaction, participant)\n"
                "        wanted = {member.user_id for member in verdict.provision.members}\n"
                "        for other in transaction.rows(database.participants):\n"
                "            if other.chat_id == verdict.chat_id and other.user_id not in wanted:\n"
                "                gone = evolve(other, left_at=verdict.provision.updated_at)\n"
                "                await transaction.update(database.participants, gone)\n"
                "    return",
            ),
        ),
        ("tests/contract/test_memory.py",),
    ),
    Defect(
        "ready rows are requeued",
        (
            Change(
                f"{DOMAIN}/deal_chat_provision.py",
                "        self._ensure_open()\n        schedule = self.schedule.requeued",
                "        schedule = self.schedule.requeued",
            ),
        ),
        ("tests/unit/application/test_requeue_provisions.py",),
    ),
    Defect(
        "the consumer tries a row that was tried before",
        (
            Change(
                f"{APPLICATION}/provision_created_deal.py",
                "elif not _never_tried(seen):",
                "elif not seen:",
            ),
        ),
        ("tests/unit/application/test_provision_created_deal.py",),
    ),
    Defect(
        "the run lock is not given back",
        (
            Change(
                f"{MEMORY}/run_locks.py",
                "            self._server.release(\n                name, session\n            )",
                "            del session",
            ),
        ),
        ("tests/contract/test_memory.py",),
    ),
    Defect(
        "the relay marks before the broker has acknowledged",
        (
            Change(
                f"{APPLICATION}/outbox_pass.py",
                "        *meanwhile, receipts = await asyncio.gather(\n",
                "        marks = [PublishedMessage(id=head.id, partition=None, offset=None) for head in heads]\n"
                "        await self.queue.mark_published(marks, at=self.clock.now())\n"
                "        *meanwhile, receipts = await asyncio.gather(\n",
            ),
        ),
        ("tests/unit/application/test_outbox_pass.py",),
    ),
    Defect(
        "the relay does not hold back a key that failed",
        (
            Change(
                f"{APPLICATION}/outbox_pass.py",
                "        self._held.add(key)\n        self.held_back += len(lanes.pop(key)) - 1\n",
                "        lanes[key].popleft()\n        if not lanes[key]:\n            del lanes[key]\n",
            ),
        ),
        ("tests/unit/application/test_outbox_pass.py",),
    ),
    Defect(
        "the relay counts an outage against a message",
        (
            Change(
                f"{APPLICATION}/outbox_pass.py",
                "                    outage = outage or receipt.code\n",
                "                    failures.append((head, receipt))\n",
            ),
        ),
        ("tests/unit/application/test_outbox_pass.py",),
    ),
    Defect(
        "a requeue trusts the operator's clock",
        (
            Change(
                f"{DOMAIN}/retry_schedule.py",
                "next_attempt_at=max(now, _just_after(updated_at))",
                "next_attempt_at=now",
            ),
        ),
        ("tests/unit/domain/test_retry_schedule.py",),
    ),
    Defect(
        "storage that is down is asked for every row that waited",
        (
            Change(
                f"{APPLICATION}/storage_guard.py",
                "            if self._reason is not None:\n                return self._reason\n",
                "",
            ),
        ),
        ("tests/unit/application/test_recording_finalize_retry.py",),
    ),
    Defect(
        "a look begins after the end of its cycle",
        (Change(f"{APPLICATION}/storage_guard.py", "if not may_begin():", "if not may_begin:"),),
        ("tests/unit/application/test_recording_finalize_retry.py",),
    ),
    Defect(
        "rows are claimed side by side on a full disk",
        (
            Change(
                f"{APPLICATION}/recording_finalize_retry.py",
                "            self._in_doubt = isinstance(error, DatabaseUnavailable)\n",
                "",
            ),
        ),
        ("tests/unit/application/test_recording_finalize_retry.py",),
    ),
)
