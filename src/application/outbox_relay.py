"""The ``outbox-relay`` job: committed messages reach the broker, each at least once and in order of their keys."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Final
from uuid import UUID

from attrs import define, field, frozen

from .cycle_report import CycleEnd
from .failing_keys import FailingKeys
from .finishing import asked_to_end
from .heartbeat import Beat, unheard
from .options import OutboxRelayOptions
from .outbox_pass import OutboxPass, trouble_of
from .ports.clock import Clock
from .ports.entropy import NewId, Spread
from .ports.event_publisher import EventPublisher
from .ports.outbox_queue import OutboxQueue, PublishedMessage
from .ports.relay_telemetry import RelayTelemetry
from .ports.run_lock import RunLease, RunLocks
from .prune_outbox import PRUNE_BATCH, PruneOutbox
from .relay_report import PassReport, RelayReport
from .stop_signal import StopSignal
from .trouble import Trouble

OUTBOX_RELAY: Final = "outbox-relay"

STANDBY_INTERVAL: Final = timedelta(seconds=5)
"""How often a relay asks for the lock that another one holds, unless it polls more rarely anyway: each time costs the
server a connection."""

PRUNING_INTERVAL: Final = timedelta(minutes=1)
PRUNE_BATCHES: Final = 10
"""So many batches at a time, so that pruning holds up nobody; the rest follows after the next pass."""


@frozen(kw_only=True, eq=False)
class OutboxRelay:
    """Passes over the outbox while this relay holds the run lock, which it keeps over many passes.

    Whatever keeps a pass from going on (database, broker, configuration, a defect of ours) ends it, counts against no
    message, and gives the lock up: another replica may be better off. The next attempt comes after a backoff.
    """

    queue: OutboxQueue
    publisher: EventPublisher
    locks: RunLocks
    clock: Clock
    telemetry: RelayTelemetry
    options: OutboxRelayOptions
    new_id: NewId
    spread: Spread
    _unmarked: list[PublishedMessage] = field(factory=list[PublishedMessage], init=False)

    async def run(self, stop: StopSignal, *, beat: Beat = unheard) -> None:
        """Relay until a stop is requested, every ``polling_interval``, or at once where a pass left work.

        A stop lets the round in hand get its receipts and mark them, for at most `STOP_GRACE` seconds. ``beat`` is
        called at every sign of life, at the latest after ``OutboxRelayOptions.patience``. Cancellation propagates and
        leaves neither lock nor task behind.
        """
        loop = _Loop(self, stop, beat)
        while not stop.requested:
            beat()
            pause = await loop.turn()
            beat()
            await stop.cut_short(self.clock.sleep(pause.total_seconds()))

    async def run_once(self, stop: StopSignal) -> RelayReport:
        """Make passes until one publishes nothing, and report; *skipped* when another relay holds the lock.

        Failures end in the report, never in an exception. Prunes nothing.
        """
        run_id, started_at, started = self.new_id(), self.clock.now(), self.clock.monotonic()
        passes: list[PassReport] = []
        trouble: Trouble | None = None
        end: CycleEnd | None = None
        try:
            async with self.locks.try_acquire(OUTBOX_RELAY) as lease:
                if lease is None:
                    self.telemetry.standing_by(run_id)
                    end = CycleEnd.SKIPPED
                else:
                    await self._drain(lease, run_id, stop, passes)
        except Exception as error:  # noqa: BLE001 - the report says it
            trouble = trouble_of(error)
        last = passes[-1] if passes else None
        if last is not None and trouble is None:
            end, trouble = last.end, last.trouble
        if trouble is not None:
            end = CycleEnd.ABORTED
            self.telemetry.trouble_began(run_id, trouble)
        return RelayReport(
            run_id=run_id,
            started_at=started_at,
            duration=timedelta(seconds=self.clock.monotonic() - started),
            end=end or CycleEnd.COMPLETED,
            published=sum(report.published for report in passes),
            failed=sum(report.failed for report in passes),
            parked=sum(report.parked for report in passes),
            held_back=last.held_back if last is not None else 0,
            error_code=trouble.code if trouble is not None else None,
        )

    async def _drain(self, lease: RunLease, run_id: UUID, stop: StopSignal, passes: list[PassReport]) -> None:
        self.telemetry.lock_acquired(run_id)
        failing = FailingKeys(self.options.backoff, self.spread)
        try:
            while not passes or (passes[-1].end is CycleEnd.COMPLETED and passes[-1].published > 0):
                passes.append(await self.one_pass(lease, run_id, failing, stop, unheard))
        finally:
            self.telemetry.lock_released(run_id)

    async def one_pass(
        self,
        lease: RunLease,
        run_id: UUID,
        failing: FailingKeys,
        stop: StopSignal,
        beat: Beat,
    ) -> PassReport:
        """Pass over the outbox once under this lease, and tell the telemetry."""
        report = await OutboxPass(
            run_id=run_id,
            queue=self.queue,
            publisher=self.publisher,
            clock=self.clock,
            telemetry=self.telemetry,
            batch_size=self.options.batch_size,
            failing=failing,
            unmarked=self._unmarked,
            lease=lease,
            stop=stop,
            beat=beat,
        ).run()
        self.telemetry.pass_finished(report)
        return report


@define(eq=False)
class _Loop:
    """What the worker's loop remembers from one turn to the next. A turn lasts for as long as the lock can be held."""

    _relay: OutboxRelay
    _stop: StopSignal
    _beat: Beat
    _trouble: Trouble | None = field(default=None, init=False)
    _failures_in_a_row: int = field(default=0, init=False)
    _prune_at: float = field(default=0.0, init=False)

    async def turn(self) -> timedelta:
        """Try to get the lock and make passes under it; how long to wait before the next turn."""
        relay, run_id = self._relay, self._relay.new_id()
        try:
            async with relay.locks.try_acquire(OUTBOX_RELAY) as lease:
                if lease is None:
                    relay.telemetry.standing_by(run_id)
                    return max(relay.options.polling_interval, STANDBY_INTERVAL)
                relay.telemetry.lock_acquired(run_id)
                try:
                    return await self._hold(lease, run_id)
                finally:
                    relay.telemetry.lock_released(run_id)
        except asyncio.CancelledError as error:
            if asked_to_end():
                raise
            return self._in_trouble(run_id, trouble_of(error))
        except Exception as error:  # noqa: BLE001 - the relay must outlive whatever happens to it
            return self._in_trouble(run_id, trouble_of(error))

    async def _hold(self, lease: RunLease, run_id: UUID) -> timedelta:
        relay, interval = self._relay, self._relay.options.polling_interval
        failing = FailingKeys(relay.options.backoff, relay.spread)
        while True:
            started = relay.clock.monotonic()
            report = await relay.one_pass(lease, run_id, failing, self._stop, self._beat)
            if report.trouble is not None:
                return self._in_trouble(run_id, report.trouble)
            if report.end is not CycleEnd.COMPLETED:
                return interval
            self._well(run_id)
            await self._prune(lease, run_id)
            if not report.more:
                rest = started + interval.total_seconds() - relay.clock.monotonic()
                await self._stop.cut_short(relay.clock.sleep(rest))
            self._beat()

    async def _prune(self, lease: RunLease, run_id: UUID) -> None:
        """Now and then, in bounded batches. A lease in doubt is the next pass's to find out."""
        relay = self._relay
        pruning = PruneOutbox(queue=relay.queue, clock=relay.clock, retention=relay.options.retention)
        pruned = 0
        for _ in range(PRUNE_BATCHES):
            if self._stop.requested or lease.confirmation_due or relay.clock.monotonic() < self._prune_at:
                break
            batch = await pruning.batch()
            pruned += batch
            if batch < PRUNE_BATCH:
                self._prune_at = relay.clock.monotonic() + PRUNING_INTERVAL.total_seconds()
        if pruned:
            relay.telemetry.pruned(run_id, pruned)

    def _in_trouble(self, run_id: UUID, trouble: Trouble) -> timedelta:
        before, self._trouble = self._trouble, trouble
        if before is None or before.kind is not trouble.kind:
            self._relay.telemetry.trouble_began(run_id, trouble)
        self._failures_in_a_row += 1
        return self._relay.options.backoff.delay(self._failures_in_a_row, self._relay.spread())

    def _well(self, run_id: UUID) -> None:
        before, self._trouble = self._trouble, None
        self._failures_in_a_row = 0
        if before is not None:
            self._relay.telemetry.trouble_ended(run_id, before)
