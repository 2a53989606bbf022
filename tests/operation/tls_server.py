"""A PostgreSQL that speaks TLS, with a certificate for ``localhost``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlencode

import trustme
from attrs import frozen
from messenger_jobs.adapters.local.postgres_programs import stand_in_for_root
from messenger_jobs.adapters.local.postgres_server import USER, PostgresServer

from tests.support.local_postgres import new_postgres_folder, programs_of_the_system, running_server
from tests.support.missing_server import missing_server

GUARDED: Final = "template1"
"""The database that only those with a certificate of their own may use."""

_ACCESS: Final = f"""
hostssl {GUARDED} all all scram-sha-256 clientcert=verify-full
hostssl all       all all scram-sha-256
"""


@frozen
class TlsServer:
    server: PostgresServer
    authority: Path
    stranger: Path
    """Certificates of the authority that signed the server's, and of one that did not."""

    def url(self, *, host: str = "localhost", database: str = "postgres", **parameters: str | Path) -> str:
        """Where to connect; verified in full against the right authority, unless `parameters` say otherwise."""
        given: dict[str, str | Path] = {
            "hostaddr": "127.0.0.1",  # whatever else this machine's localhost stands for
            "sslmode": "verify-full",
            "sslrootcert": self.authority,
            **parameters,
        }
        query = urlencode({name: str(value) for name, value in given.items()}, quote_via=quote)
        return f"postgresql://{USER}:{self.server.password}@{host}:{self.server.port}/{database}?{query}"


@contextmanager
def running_tls_server() -> Iterator[TlsServer]:
    programs = programs_of_the_system()
    if not programs:
        missing_server("no PostgreSQL that speaks TLS here: install Debian's package postgresql")
    with new_postgres_folder() as folder, new_postgres_folder() as certificates:
        certificates.chmod(0o755)
        authority, stranger = trustme.CA(), trustme.CA()
        authority.cert_pem.write_to_path(str(certificates / "authority.pem"))
        stranger.cert_pem.write_to_path(str(certificates / "stranger.pem"))
        certificate = authority.issue_cert("localhost")
        certificate.cert_chain_pems[0].write_to_path(str(certificates / "server.pem"))
        key = certificates / "server.key"
        certificate.private_key_pem.write_to_path(str(key))
        key.chmod(0o600)
        if (account := stand_in_for_root()) is not None:
            os.chown(key, account.pw_uid, account.pw_gid)
        (certificates / "access").write_text(_ACCESS)
        settings = {
            "fsync": "off",
            "ssl": "on",
            "ssl_cert_file": str(certificates / "server.pem"),
            "ssl_key_file": str(key),
            "ssl_ca_file": str(certificates / "authority.pem"),
            "ssl_max_protocol_version": "TLSv1.2",
            "hba_file": str(certificates / "access"),
        }
        with running_server(folder, programs[0], settings) as server:
            yield TlsServer(server, certificates / "authority.pem", certificates / "stranger.pem")
