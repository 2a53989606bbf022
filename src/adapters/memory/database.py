"""Transactions over tables, with the isolation, the locks and the errors of PostgreSQL at READ COMMITTED."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager
from datetime import timedelta
from enum import Enum
from typing import Any, Self, TypeVar

import attrs
from attrs import frozen

from ...application.ports.errors import PortError, RowRolledBack
from .clock import ManualClock
from .locks import Locks
from .switch import Phase, Step, Switch, let_others_run
from .table import ConstraintViolation, Table, Unique

Row = TypeVar("Row", bound=attrs.AttrsInstance)


class MemoryDatabase:
    """What a server would keep: committed rows, open transactions and their locks. Its tables are a subclass's.

    For setting up and looking into tests there are `put`, `row` and `rows`; everything else goes through ports.
    """

    def __init__(self, clock: ManualClock, *, lock_timeout: timedelta = timedelta(seconds=5)) -> None:
        self.clock = clock
        self.locks = Locks(clock)
        self._lock_timeout = lock_timeout
        self._open: set[Transaction] = set()

    def put(self, table: Table[Row], *rows: Row) -> None:
        """Commit rows at once, each new or in place of the one with its primary key, all or none of them.

        Needs no event loop. Raises `ConstraintViolation`, and `RowRolledBack` where it would have to wait for an open
        transaction.
        """

        async def write(transaction: Transaction) -> None:
            for row in rows:
                if not await transaction.update(table, row):
                    await transaction.insert(table, row)
            await transaction.commit()

        with Transaction(self.locks, _never_switch, timedelta(0), self._open) as transaction:
            try:
                write(transaction).send(None)
            except StopIteration:
                return
            raise AssertionError("neither the switch nor a lock without time-out suspends")

    def row(self, table: Table[Row], key: Hashable) -> Row | None:
        """The committed row with this primary key."""
        return table.get(key)

    def rows(self, table: Table[Row]) -> list[Row]:
        """The committed rows, in the order in which they were committed last."""
        return table.rows()

    @property
    def open_transactions(self) -> int:
        """How many transactions have begun and not ended; 0 when nobody is at work, else something leaks."""
        return len(self._open)

    def transaction(self, switch: Switch = let_others_run) -> Transaction:
        """A transaction whose begin and end cost no exchange, as of a statement in autocommit mode."""
        return Transaction(self.locks, switch, self._lock_timeout, self._open)

    @asynccontextmanager
    async def statement(self, operation: str, switch: Switch = let_others_run) -> AsyncGenerator[Transaction]:
        """A statement in autocommit mode: what it wrote is committed, and unlocked, before it is answered."""
        with self.transaction(switch) as transaction:
            async with transaction.statement(operation):
                yield transaction
                transaction.publish()

    @asynccontextmanager
    async def begin(self, switch: Switch = let_others_run) -> AsyncGenerator[Transaction]:
        """A transaction, rolled back unless committed."""
        with self.transaction(switch) as transaction:
            async with transaction.statement("begin"):
                pass
            try:
                yield transaction
            finally:
                await transaction.roll_back()


class _State(Enum):
    OPEN = "open"
    FAILED = "failed"  # by an error in a statement: undone, and good for nothing but being rolled back
    OVER = "over"


@frozen
class _Locked:
    key: Hashable


class Transaction:
    """Rows written are seen by nobody else until `commit`; rows locked are nobody else's until the end.

    Entered, it is one of the ``open_`` transactions; left, it is over. Reads and writes happen within a `statement`.
    They see what is committed at that moment, and the transaction's own writes.
    """

    def __init__(
        self, locks: Locks, switch: Switch, lock_timeout: timedelta, open_: set[Transaction]
    ) -> None:
        self._locks = locks
        self._switch = switch
        self._lock_timeout = lock_timeout
        self._open = open_
        self._state = _State.OPEN
        self._in_statement = False
        self._done: list[_Locked | Callable[[], None]] = []  # locks taken, and how to undo what was written
        self._savepoints: list[int] = []
        self._written: dict[Table[Any], None] = {}

    def __enter__(self) -> Self:
        self._open.add(self)
        return self

    def __exit__(self, *error: object) -> None:
        self.end()
        self._open.remove(self)

    def statement(self, operation: str) -> Statement:
        """What is done within is sent, carried out and answered; an error undoes all back to the last savepoint.

        Raises `RowRolledBack` (25P02) when an earlier statement failed.
        """
        return Statement(self, operation)

    @asynccontextmanager
    async def savepoint(self) -> AsyncGenerator[None]:
        """An exception undoes, and unlocks, what was done within; the transaction goes on."""
        async with self.statement("savepoint"):
            self._savepoints.append(len(self._done))
        try:
            yield
        except BaseException:
            self._undo_back_to(self._savepoints[-1])
            self._state = _State.OPEN
            async with self.statement("roll back to savepoint"):
                pass
            raise
        else:
            async with self.statement("release savepoint"):
                pass
        finally:
            self._savepoints.pop()

    async def send(self, operation: str) -> None:
        """Begin a statement; see `statement`."""
        self._ensure_open()
        self._in_statement = True
        try:
            await self._switch(Step(operation, Phase.SENT))
        except BaseException:
            self._end_statement(failed=True)
            raise

    async def answer(self, operation: str, *, failed: bool) -> None:
        """End a statement, which has failed or not; see `statement`."""
        try:
            if not failed:
                await self._switch(Step(operation, Phase.ANSWERED))
        except BaseException:
            failed = True
            raise
        finally:
            self._end_statement(failed=failed)

    async def commit(self) -> None:
        """Publish everything written, and unlock. Raises `RowRolledBack` (25P02) when a statement failed."""
        self._ensure_open()
        if self._savepoints:
            raise RuntimeError("a savepoint is open")
        try:
            await self._switch(Step("commit", Phase.SENT))
        except BaseException:
            self._fail()
            raise
        self.publish()
        await self._switch(Step("commit", Phase.ANSWERED))

    def publish(self) -> None:
        """Commit, and unlock, without an exchange."""
        for table in self._written:
            table.publish(self)
        done, self._done = self._done, []
        for step in done:
            if isinstance(step, _Locked):
                self._locks.release(self, step.key)
        self._state = _State.OVER

    async def roll_back(self) -> None:
        """Undo everything that is not committed; happens in any case, also when cancelled or without an answer."""
        if self._state is _State.OVER:
            return
        try:
            await self._switch(Step("rollback", Phase.SENT))
        except PortError:
            pass  # the connection is gone, and the transaction with it
        finally:
            self.end()

    def end(self) -> None:
        """Undo, without an exchange, everything that is not committed."""
        self._undo_back_to(0)
        for table in self._written:
            table.discard(self)
        self._state = _State.OVER

    def get(self, table: Table[Row], key: Hashable) -> Row | None:
        """The row with this primary key."""
        return table.get(key, self)

    def find(self, table: Table[Row], unique: Unique[Row], value: Hashable) -> Row | None:
        """The row with this value of a unique key."""
        return table.find(unique, value, self)

    def rows(self, table: Table[Row]) -> list[Row]:
        """All rows, in no particular order."""
        return table.rows(self)

    def try_lock(self, table: Table[Row], key: Hashable) -> Row | None:
        """Lock the row as SKIP LOCKED does: None when there is none, or when somebody else has it."""
        row = table.get(key, self)
        return row if row is not None and self._locks.try_acquire(self, (table.name, key)) else None

    async def lock(self, table: Table[Row], key: Hashable) -> Row | None:
        """Lock the row, waiting for its holder; what comes back is the row as it is by then."""
        if table.get(key, self) is None:
            return None
        await self._acquire((table.name, key))
        return table.get(key, self)

    async def lock_shared(self, table: Table[Row], key: Hashable) -> Row | None:
        """As `lock`, but others may share the lock, and nobody may write the row until all of them are done."""
        if table.get(key, self) is None:
            return None
        await self._acquire((table.name, key), shared=True)
        return table.get(key, self)

    async def insert(self, table: Table[Row], row: Row) -> None:
        """Add a row, waiting for other transactions that are about to take, or to give up, its unique values.

        Raises `ConstraintViolation`.
        """
        self._check(table, row)
        for unique in table.unique:
            await self._take(table, unique, row)
        self._write(table, table.key.value(row), row)

    async def insert_unless_there(self, table: Table[Row], row: Row, unique: Unique[Row]) -> bool:
        """As ON CONFLICT (unique) DO NOTHING: False when the value is taken. Other conflicts are violations."""
        before = len(self._done)
        try:
            await self._take(table, unique, row)
        except ConstraintViolation:
            self._undo_back_to(before)
            return False
        await self.insert(table, row)
        return True

    async def update(self, table: Table[Row], row: Row) -> bool:
        """Replace the row with the same primary key, locking it and its unique values; False when there is none.

        Whoever inserts one of these values meanwhile waits, for the row may become another one; who only locks a row
        does not make anybody wait with that.
        """
        key = table.key.value(row)
        before = await self.lock(table, key)
        if before is None:
            return False
        self._check(table, row)
        for unique in table.unique:
            await self._acquire_value(table, unique, before)
            if unique.value(row) != unique.value(before):
                await self._take(table, unique, row)
        self._write(table, key, row)
        return True

    async def delete(self, table: Table[Row], key: Hashable) -> bool:
        """Remove the row, locking it; False when there is none. Not for tables that others refer to."""
        assert not table.referred_to, "needs share locks on the rows that are referred to"
        row = await self.lock(table, key)
        if row is None:
            return False
        for unique in table.unique:
            await self._acquire_value(table, unique, row)
        self._write(table, key, None)
        return True

    def granted(self, key: Hashable) -> None:
        """For the locks to say that this one is the transaction's from now on."""
        self._done.append(_Locked(key))

    async def _acquire(self, key: Hashable, *, shared: bool = False) -> None:
        await self._locks.acquire(self, key, timeout=self._lock_timeout, shared=shared)

    async def _acquire_value(self, table: Table[Row], unique: Unique[Row], row: Row) -> None:
        value = unique.value(row)
        if value is not None:
            await self._acquire((table.name, unique.name, value))

    async def _take(self, table: Table[Row], unique: Unique[Row], row: Row) -> None:
        await self._acquire_value(table, unique, row)
        value = unique.value(row)
        if value is not None and table.find(unique, value, self) is not None:
            raise ConstraintViolation("23505", unique.name)

    def _check(self, table: Table[Row], row: Row) -> None:
        table.check(row)
        for reference in table.references:
            key = reference.value(row)
            if key is not None and reference.to.get(key, self) is None:
                raise ConstraintViolation("23503", reference.name)

    def _write(self, table: Table[Row], key: Hashable, row: Row | None) -> None:
        self._written[table] = None
        self._done.append(table.stage(self, key, row))

    def _end_statement(self, *, failed: bool) -> None:
        if failed:
            self._fail()
        self._in_statement = False

    def _fail(self) -> None:
        self._undo_back_to(self._savepoints[-1] if self._savepoints else 0)
        if self._state is _State.OPEN:
            self._state = _State.FAILED

    def _undo_back_to(self, mark: int) -> None:
        while len(self._done) > mark:
            step = self._done.pop()
            if isinstance(step, _Locked):
                self._locks.release(self, step.key)
            else:
                step()

    def _ensure_open(self) -> None:
        if self._state is _State.OVER:
            raise RuntimeError("the transaction is over")
        if self._in_statement:
            raise RuntimeError("a statement of the same transaction is under way")
        if self._state is _State.FAILED:
            raise RowRolledBack("25P02", "a statement of the transaction failed before")


@frozen
class Statement:
    """See `Transaction.statement`."""

    _transaction: Transaction
    _operation: str

    def __aenter__(self) -> Awaitable[None]:
        return self._transaction.send(self._operation)

    def __aexit__(self, kind: type[BaseException] | None, *error: object) -> Awaitable[None]:
        return self._transaction.answer(self._operation, failed=kind is not None)


async def _never_switch(step: Step) -> None:
    del step
