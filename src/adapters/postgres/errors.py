"""Translates what psycopg and its pool raise into the application's port errors."""

from __future__ import annotations

from types import TracebackType
from typing import Final

import psycopg
from psycopg_pool import PoolClosed, PoolTimeout, TooManyRequests

from ...application.ports.errors import (
    ChatAlreadyExists,
    DatabaseUnavailable,
    DataRejected,
    Misconfigured,
    PortError,
    RowRolledBack,
)

CONNECTION_LOST: Final = "CONNECTION_LOST"
NO_ANSWER: Final = "NO_ANSWER"
NO_CONNECTION: Final = "NO_CONNECTION"

# By SQLSTATE, else by its class. What is in none of these is the answer of a server that goes on: a transaction undone.
_UNAVAILABLE: Final = {
    "08": "the connection to the database failed",
    "25006": "the database is read-only, as a standby is and a primary that was replaced",
    "53": "the database has run out of what it needs",
    "53100": "the database's disk is full",
    "53200": "the database has run out of memory",
    "53300": "the database has no connection left to give",
    "25P03": "the database ended the connection because its transaction was idle for too long",
    "57P01": "the database ended the connection",
    "57P02": "the database server crashed",
    "57P03": "the database is starting up or shutting down",
    "57P05": "the database ended the connection because it was idle for too long",
}
_MISCONFIGURED: Final = {
    "26": "a prepared statement is gone: the connection goes through a proxy that gives each transaction another one",
    "28": "the database refuses the credentials",
    "3D": "the database does not exist",
    "3F": "the schema messenger does not exist: run the migrations",
    "42": "the database's schema is not the one that this version needs: run the migrations",
    "42501": "the database account lacks a permission",
    "42P01": "a table is missing: run the migrations",
    "42P05": "a prepared statement exists twice: the connection goes through a proxy that shares connections",
    "57P04": "the database has been dropped",
}
_ROLLED_BACK: Final = {
    "40001": "the transaction conflicted with a concurrent one",
    "40P01": "the transaction was ended to resolve a deadlock",
    "55P03": "the wait for a lock took too long",
    "57014": "the statement took too long or was cancelled",
}

# The server's functions, for their SQLSTATE (54000) is also that of a value which is too large for an index.
_OUT_OF_TRANSACTION_IDS: Final = ("GetNewTransactionId", "GetNewMultiXactId")

# A refused connection has no SQLSTATE in libpq, only the server's text. One in another language passes for an outage,
# which costs no attempt either.
_REFUSALS: Final = (
    ("28P01", ("password authentication failed", "no password supplied")),
    (
        "28000",
        (
            "authentication failed",
            "no pg_hba.conf entry",
            "not permitted to log in",
            'FATAL:  role "',
            "connection requires a valid client certificate",
        ),
    ),
    ("3D000", ('FATAL:  database "',)),
    ("42501", ("permission denied for database",)),
    (
        "53300",
        ("too many clients already", "remaining connection slots are reserved", "too many connections for"),
    ),
)

# What libpq and OpenSSL say where they refuse the server, or the server refuses to encrypt.
_TLS_FAULTS: Final[tuple[tuple[str, str, tuple[str, ...]], ...]] = (
    (
        "CERTIFICATE_REFUSED",
        "the database's certificate is out of date, or signed by an authority that sslrootcert does not hold",
        ("certificate verify failed",),
    ),
    (
        "HOST_NAME_MISMATCH",
        "the database's certificate is one of another host name than the URL's",
        ("does not match host name",),
    ),
    (
        "CERTIFICATE_FILE_UNUSABLE",
        "a file that sslrootcert, sslcert or sslkey names, or leaves to its default, is missing or cannot be used",
        ("certificate file", "private key file"),
    ),
    (
        "TLS_NOT_OFFERED",
        "the database offers no encryption, which sslmode demands",
        ("server does not support SSL, but SSL was required",),
    ),
    (
        "TLS_FAILED",
        "the database and this client agree on no encryption, or on no client certificate",
        ("SSL error: tlsv1 alert", "SSL error: sslv3 alert", "SSL error: unsupported protocol"),
    ),
)


def port_error(error: psycopg.Error | TimeoutError | UnicodeEncodeError) -> PortError | None:
    """The port error that ``error`` means, None when it is a defect of this package and should be seen as it is.

    Codes are SQLSTATEs, or names of this module where the server did not get to say one. Messages tell nothing of the
    connection's address or of the data.
    """
    if isinstance(error, UnicodeEncodeError):  # a lone surrogate, which no PostgreSQL text can hold
        return _data_rejected("22021")
    if isinstance(error, TimeoutError):
        return DatabaseUnavailable(NO_ANSWER, "the database did not answer in time")
    if error.sqlstate is not None:
        return _by_sqlstate(error, error.sqlstate)
    return _without_sqlstate(error)


class TranslatedErrors:
    """Within its context, drivers' errors become port errors; cancellation and everything else pass unchanged."""

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, (psycopg.Error, TimeoutError, UnicodeEncodeError)):
            translated = port_error(error)
            if isinstance(translated, (DataRejected, ChatAlreadyExists)):
                raise translated from None  # the driver's message quotes the row
            if translated is not None:
                raise translated from error


def _by_sqlstate(error: psycopg.Error, sqlstate: str) -> PortError:
    if sqlstate == "23505" and error.diag.constraint_name == "ux_chats_deal_id":
        return ChatAlreadyExists()
    if sqlstate[:2] in ("22", "23"):
        return _data_rejected(sqlstate)
    if error.diag.source_function in _OUT_OF_TRANSACTION_IDS:
        return DatabaseUnavailable(
            sqlstate, f"the database takes no more transactions until it is vacuumed (SQLSTATE {sqlstate})"
        )
    for kind, sentences in (
        (DatabaseUnavailable, _UNAVAILABLE),
        (Misconfigured, _MISCONFIGURED),
        (RowRolledBack, _ROLLED_BACK),
    ):
        sentence = sentences.get(sqlstate) or sentences.get(sqlstate[:2])
        if sentence is not None:
            return kind(sqlstate, f"{sentence} (SQLSTATE {sqlstate})")
    return RowRolledBack(sqlstate, f"the database undid the transaction (SQLSTATE {sqlstate})")


def _without_sqlstate(error: psycopg.Error) -> PortError | None:
    match error:
        case PoolTimeout() | PoolClosed() | TooManyRequests():
            return DatabaseUnavailable(NO_CONNECTION, "no connection to the database could be had")
        case psycopg.errors.ConnectionTimeout():
            return DatabaseUnavailable(NO_ANSWER, "the database could not be reached in time")
        case psycopg.errors._WaitTimeout():  # pyright: ignore[reportPrivateUsage]
            return DatabaseUnavailable(NO_ANSWER, "the database did not answer in time")
        case psycopg.OperationalError() | psycopg.InterfaceError():
            refusal = _refusal(error, str(error)) if error.pgconn is not None else None
            return refusal or DatabaseUnavailable(CONNECTION_LOST, "the connection to the database failed")
        case psycopg.DataError():  # refused by the driver before it was sent, for example a NUL character
            return _data_rejected("22000")
        case _:
            return None


def _refusal(error: psycopg.Error, text: str) -> PortError | None:
    """What the text of a refused connection means; None when nobody refused anything."""
    for sqlstate, marks in _REFUSALS:
        if any(mark in text for mark in marks):
            return _by_sqlstate(error, sqlstate)
    for code, sentence, signs in _TLS_FAULTS:
        if any(sign in text for sign in signs):
            return Misconfigured(code, sentence)
    return None


def _data_rejected(sqlstate: str) -> DataRejected:
    return DataRejected(sqlstate, f"the database refuses the data (SQLSTATE {sqlstate})")
