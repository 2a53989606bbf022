"""What a port may raise. Adapters translate their drivers' errors into these, in one module each."""

from __future__ import annotations


class PortError(Exception):
    """Base of what a port raises on purpose.

    ``code`` is stable, the message is a sentence for people; neither holds personal data, addresses or secrets.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class RowRolledBack(PortError):
    """This transaction is gone (deadlock, serialization, lock time-out); others may do fine.

    Nothing of it is stored, so nothing was counted.
    """


class DatabaseUnavailable(PortError):
    """The database as a whole cannot be worked with for now.

    The connection failed or could not be had, the disk is full, memory or connections are used up, all is read-only.
    A write in flight may or may not be stored: never send it again, read the row again instead.
    """


class DataRejected(PortError):
    """The database refuses the data itself (SQLSTATE classes 22 and 23): trying again cannot help."""


class ChatAlreadyExists(PortError):
    """A concurrent creator won by ``ux_chats_deal_id``: read its chat and use that."""

    def __init__(self) -> None:
        super().__init__("ux_chats_deal_id", "the deal got its chat from a concurrent transaction")


class Misconfigured(PortError):
    """Something must be set up by a person: a missing table, refused credentials, a missing permission."""
