"""Whether the database is there, of a supported version, writable, and has the schema and the permissions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, LiteralString

from attrs import field, frozen
from psycopg import AsyncConnection

from ...application.ports.check import CheckedItem, Verdict, failed, ok, skipped
from ...application.ports.errors import Misconfigured, PortError
from .bounded_connection import BoundedConnection, connect
from .connection_pool import pooled_conninfo
from .errors import TranslatedErrors
from .host_connection import HostConnection
from .schema import require_schema

DATABASE: Final = "database"
VERSION: Final = "database version"
SCHEMA: Final = "schema"
PERMISSIONS: Final = "permissions"

OLDEST_MAJOR: Final = 14
NEWEST_MAJOR: Final = 18

_PRIVILEGES: Final[Mapping[str, str]] = {
    "chats": "select insert update",  # locking a row, also for share, takes the permission to update
    "participants": "select insert update",
    "chat_events": "select insert",
    "deal_chat_provisions": "select insert update",
    "deal_chat_provision_members": "select insert",
    "outbox_messages": "select insert update delete",
}
_PRIVILEGES_FOR_RECORDINGS: Final[Mapping[str, str]] = {
    "call_recordings": "select update",
    "recording_finalize_attempts": "select insert update",
    "realtime_outbox": "select insert",
}

_USAGE: Final = "usage on schema messenger"
_LACKING: Final[LiteralString] = """
select 'usage on schema messenger'
where not has_schema_privilege(to_regnamespace('messenger')::oid, 'usage')
union all
select needed.privilege || ' on ' || needed.name
from unnest(%(names)s::text[], %(privileges)s::text[]) as needed (name, privilege)
    join pg_class c on c.relname = needed.name and c.relnamespace = to_regnamespace('messenger')
where not case needed.privilege
    when 'delete' then has_table_privilege(c.oid, 'delete')
    else has_any_column_privilege(c.oid, needed.privilege) -- what is granted by column is what our statements need
end
"""

_READ_ONLY: Final[LiteralString] = "select current_setting('transaction_read_only') = 'on'"


@frozen(kw_only=True)
class DatabaseCheck:
    """See `Check`: connects as the jobs do; ``setting`` is what a person changes when that fails."""

    database_url: str = field(repr=False)
    setting: str
    recordings: bool

    async def __call__(self) -> Sequence[CheckedItem]:
        """See `Check`."""
        try:
            with TranslatedErrors():
                connection = await connect(
                    BoundedConnection, pooled_conninfo(self.database_url), autocommit=True
                )
        except PortError as error:
            reason = "the database could not be looked at"
            return [
                self._unusable(error),
                *(skipped(item, reason) for item in (VERSION, SCHEMA, PERMISSIONS)),
            ]
        async with connection:
            schema = await self._schema(connection)
            return [
                await self._writable(connection),
                version_item(connection.info.server_version),
                schema,
                await self._permissions(connection)
                if schema.verdict is Verdict.OK
                else skipped(PERMISSIONS, "the schema is not there as a whole"),
            ]

    def _unusable(self, error: PortError) -> CheckedItem:
        if _refuses_parameters(error):
            error = Misconfigured(
                "STARTUP_PARAMETER_REFUSED",
                "a proxy in front of the database refuses the parameters that a connection starts with: "
                "PgBouncer ignores them where its ignore_startup_parameters names options",
            )
        return failed(DATABASE, f"{self.setting}: {error}", error.code)

    async def _writable(self, connection: AsyncConnection[Any]) -> CheckedItem:
        try:
            with TranslatedErrors():
                row = await (await connection.execute(_READ_ONLY)).fetchone()
        except PortError as error:
            return self._unusable(error)
        if row == (True,):
            sentence = "the database can be reached, but is read-only, as a standby is"
            return failed(DATABASE, f"{self.setting}: {sentence}", "READ_ONLY")
        return ok(DATABASE, "the database can be reached and written to")

    async def _schema(self, connection: AsyncConnection[Any]) -> CheckedItem:
        try:
            await require_schema(HostConnection(connection))
        except PortError as error:
            return failed(SCHEMA, f"{self.setting}: {error}", error.code)
        return ok(SCHEMA, "the schema has everything that this version needs")

    async def _permissions(self, connection: AsyncConnection[Any]) -> CheckedItem:
        needed = {**_PRIVILEGES, **(_PRIVILEGES_FOR_RECORDINGS if self.recordings else {})}
        pairs = [(name, privilege) for name, privileges in needed.items() for privilege in privileges.split()]
        parameters = {
            "names": [name for name, _ in pairs],
            "privileges": [privilege for _, privilege in pairs],
        }
        try:
            with TranslatedErrors():
                cursor = await connection.execute(_LACKING, parameters)
                found = {lack for (lack,) in await cursor.fetchall()}
        except PortError as error:
            return failed(PERMISSIONS, f"{self.setting}: {error}", error.code)
        in_order = [_USAGE, *(f"{privilege} on {name}" for name, privilege in pairs)]
        lacking = [lack for lack in in_order if lack in found]
        if not lacking:
            return ok(PERMISSIONS, "the account may do what the jobs do")
        more = f" and {len(lacking) - 3} more permissions" if len(lacking) > 3 else ""
        sentence = f"the account lacks {', '.join(lacking[:3])}{more}"
        return failed(PERMISSIONS, f"{self.setting}: {sentence}", "PERMISSION_MISSING")


def version_item(server_version: int) -> CheckedItem:
    """The verdict on a server's version, as PostgreSQL numbers it: 150013 is 15.13."""
    major = server_version // 10_000
    name = f"PostgreSQL {major}"
    supported = f"PostgreSQL {OLDEST_MAJOR} to {NEWEST_MAJOR}"
    if OLDEST_MAJOR <= major <= NEWEST_MAJOR:
        return ok(VERSION, f"the server is {name}, and {supported} are supported")
    code = "VERSION_TOO_OLD" if major < OLDEST_MAJOR else "VERSION_NOT_TESTED"
    return failed(VERSION, f"the server is {name}, but only {supported} are supported", code)


def _refuses_parameters(error: PortError) -> bool:
    """Poolers do not pass on what they do not know, and say so in words only."""
    return "unsupported startup parameter" in str(error.__cause__)
