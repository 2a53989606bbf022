"""What can go wrong with the local PostgreSQL."""

from __future__ import annotations

from typing import Final, Literal

PostgresServerErrorCode = Literal[
    "PROGRAMS_MISSING", "FOLDER_UNUSABLE", "INITDB_FAILED", "PORT_TAKEN", "START_FAILED", "STOP_TIMED_OUT"
]


class PostgresServerError(Exception):
    """The server could not be prepared, started or stopped: one sentence for people, and a stable `code`."""

    def __init__(self, code: PostgresServerErrorCode, message: str) -> None:
        super().__init__(message)
        self.code: Final = code
