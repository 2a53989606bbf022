"""The launcher of a local PostgreSQL, with every major whose programs are here."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from messenger_jobs.adapters.local import postgres_server
from messenger_jobs.adapters.local.postgres_programs import embedded_programs
from messenger_jobs.adapters.local.postgres_server import PostgresServer, serving
from messenger_jobs.adapters.local.postgres_server_error import PostgresServerError

from tests.support.eventually import eventually_here
from tests.support.local_postgres import PostgresPrograms, new_postgres_folder


@pytest.fixture
def folder() -> Iterator[Path]:
    with new_postgres_folder() as folder:
        yield folder


def ask(server: PostgresServer, query: str) -> object:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        cursor = connection.execute(query.encode())
        return row[0] if cursor.description and (row := cursor.fetchone()) else None


def accepts_connections(host: str, port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((host, port)) == 0


def process_id(server: PostgresServer) -> int:
    return int((server.folder / "data" / "postmaster.pid").read_text().splitlines()[0])


def is_one_sentence(error: PostgresServerError) -> bool:
    text = str(error)
    return bool(text) and "\n" not in text and "Traceback" not in text


def test_new_server_is_durable_and_only_local(folder: Path, local_postgres: PostgresPrograms) -> None:
    with PostgresServer(folder, local_postgres.folder) as server:
        assert server.running
        assert ask(server, "show fsync") == "on"
        assert ask(server, "show data_checksums") == "on"
        assert ask(server, "show listen_addresses") == "127.0.0.1"
        assert ask(server, "show unix_socket_directories") == ""


def test_wrong_password_is_refused(own_postgres_server: PostgresServer) -> None:
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(own_postgres_server.url(), password="wrong")


def test_data_password_and_port_outlive_a_restart(own_postgres_server: PostgresServer) -> None:
    url = own_postgres_server.url()
    ask(own_postgres_server, "create table kept as select 1 as number")
    own_postgres_server.restart()
    assert own_postgres_server.url() == url
    assert ask(own_postgres_server, "select number from kept") == 1


def test_another_owner_finds_data_and_password(own_postgres_server: PostgresServer) -> None:
    ask(own_postgres_server, "create table kept as select 1 as number")
    own_postgres_server.stop()
    with PostgresServer(own_postgres_server.folder, own_postgres_server.programs) as next_owner:
        assert ask(next_owner, "select number from kept") == 1


@pytest.mark.parametrize("end", ["kill", "immediate"])
def test_committed_rows_outlive_a_crash(own_postgres_server: PostgresServer, end: str) -> None:
    with psycopg.connect(own_postgres_server.url()) as connection:
        connection.execute("create table kept as select generate_series(1, 1000)")
        connection.commit()
        connection.execute("insert into kept select 0")
        if end == "kill":
            own_postgres_server.kill()
        else:
            own_postgres_server.stop("immediate")
        with pytest.raises(psycopg.OperationalError):
            connection.execute("select 1")
    assert not own_postgres_server.running
    own_postgres_server.start()
    assert ask(own_postgres_server, "select count(*) from kept") == 1000


async def test_killed_server_can_be_started_while_a_statement_was_running(
    own_postgres_server: PostgresServer,
) -> None:
    connection = await psycopg.AsyncConnection.connect(own_postgres_server.url(), autocommit=True)
    async with connection:
        running = asyncio.create_task(connection.execute("select pg_sleep(600)"))
        await asyncio.to_thread(
            eventually_here,
            lambda: (
                ask(own_postgres_server, "select count(*) from pg_stat_activity where wait_event = 'PgSleep'")
                == 1
            ),
        )
        await asyncio.to_thread(own_postgres_server.kill)
        with pytest.raises(psycopg.OperationalError):
            await running
    own_postgres_server.start()
    assert ask(own_postgres_server, "select 1") == 1


def test_server_that_crashed_by_itself_can_be_started(own_postgres_server: PostgresServer) -> None:
    ask(own_postgres_server, "create table kept as select 1 as number")
    os.kill(process_id(own_postgres_server), signal.SIGKILL)
    eventually_here(lambda: not own_postgres_server.running)
    own_postgres_server.start()
    assert ask(own_postgres_server, "select number from kept") == 1


def test_start_and_stop_can_be_repeated(own_postgres_server: PostgresServer) -> None:
    before = process_id(own_postgres_server)
    own_postgres_server.start()
    assert process_id(own_postgres_server) == before
    own_postgres_server.stop()
    own_postgres_server.stop()
    own_postgres_server.kill()
    assert not own_postgres_server.running


_OWNER = """
import sys, time
from pathlib import Path
from messenger_jobs.adapters.local.postgres_server import PostgresServer
folder, programs, temporary = sys.argv[1:]
server = PostgresServer(folder, Path(programs), temporary=temporary == "True")
server.start()
print(server.port, flush=True)
time.sleep(600)
"""


def start_and_be_killed(folder: Path, programs: Path, *, temporary: bool = False) -> int:
    """In a process of its own; the port."""
    command = [sys.executable, "-c", _OWNER, str(folder), str(programs), str(temporary)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        port = int(owner.stdout.readline())
        assert accepts_connections("127.0.0.1", port)
        owner.kill()
    return port


def test_server_vanishes_when_its_owner_is_killed(own_postgres_server: PostgresServer) -> None:
    ask(own_postgres_server, "create table kept as select 1 as number")
    own_postgres_server.stop()
    port = start_and_be_killed(own_postgres_server.folder, own_postgres_server.programs)
    eventually_here(lambda: not accepts_connections("127.0.0.1", port))
    own_postgres_server.start()
    assert ask(own_postgres_server, "select number from kept") == 1


def test_next_owner_waits_for_the_server_of_a_killed_one(own_postgres_server: PostgresServer) -> None:
    own_postgres_server.stop()
    start_and_be_killed(own_postgres_server.folder, own_postgres_server.programs)
    own_postgres_server.start()
    assert ask(own_postgres_server, "select 1") == 1


def test_temporary_folder_goes_with_its_killed_owner(own_postgres_server: PostgresServer) -> None:
    own_postgres_server.stop()
    start_and_be_killed(own_postgres_server.folder, own_postgres_server.programs, temporary=True)
    eventually_here(lambda: not own_postgres_server.folder.exists())
    own_postgres_server.folder.mkdir()  # for whoever clears up


def test_temporary_folder_outlives_stop_and_crash(own_postgres_server: PostgresServer) -> None:
    assert own_postgres_server.temporary
    ask(own_postgres_server, "create table kept as select 1 as number")
    own_postgres_server.stop()
    own_postgres_server.start()
    os.kill(process_id(own_postgres_server), signal.SIGKILL)
    eventually_here(lambda: not own_postgres_server.running)
    own_postgres_server.start()
    assert ask(own_postgres_server, "select number from kept") == 1


def test_two_servers_run_at_once(own_postgres_server: PostgresServer, folder: Path) -> None:
    with PostgresServer(folder, own_postgres_server.programs) as second:
        assert second.port != own_postgres_server.port
        ask(second, "create table only_here ()")
        assert ask(own_postgres_server, "select to_regclass('only_here')") is None


def test_second_server_in_the_same_folder_is_refused(
    own_postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_server, "_OTHER_SERVER_WAIT", 0.0)
    with pytest.raises(PostgresServerError, match="another server runs in it") as refused:
        PostgresServer(own_postgres_server.folder, own_postgres_server.programs).start()
    assert refused.value.code == "FOLDER_UNUSABLE"
    assert is_one_sentence(refused.value)
    assert ask(own_postgres_server, "select 1") == 1


def test_taken_port_is_refused_in_one_sentence(own_postgres_server: PostgresServer, folder: Path) -> None:
    other = PostgresServer(folder, own_postgres_server.programs, port=own_postgres_server.port)
    with pytest.raises(PostgresServerError, match=str(own_postgres_server.port)) as refused:
        other.start()
    assert refused.value.code == "PORT_TAKEN"
    assert is_one_sentence(refused.value)
    assert not other.running


def test_wrong_setting_is_refused_in_one_sentence(own_postgres_server: PostgresServer) -> None:
    own_postgres_server.stop()
    own_postgres_server.settings = {"no_such_setting": "on"}
    with pytest.raises(PostgresServerError, match="no_such_setting") as refused:
        own_postgres_server.start()
    assert refused.value.code == "START_FAILED"
    assert is_one_sentence(refused.value)
    own_postgres_server.settings = {"work_mem": "5MB"}
    own_postgres_server.start()
    assert ask(own_postgres_server, "show work_mem") == "5MB"


def test_unfinished_database_is_made_anew(own_postgres_server: PostgresServer) -> None:
    own_postgres_server.stop()
    data = own_postgres_server.folder / "data"
    data.rename(data.with_name("data.unfinished"))
    own_postgres_server.start()
    assert ask(own_postgres_server, "select 1") == 1
    assert not data.with_name("data.unfinished").exists()


def test_folder_without_programs_is_refused_in_one_sentence(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(PostgresServerError, match=r"pin-messenger-jobs\[embedded\]") as refused:
        PostgresServer(folder, tmp_path).start()
    assert refused.value.code == "PROGRAMS_MISSING"
    assert is_one_sentence(refused.value)


def test_missing_wheel_is_refused_in_one_sentence(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(PostgresServerError, match=r"pin-messenger-jobs\[embedded\]") as refused:
        PostgresServer(folder)
    assert refused.value.code == "PROGRAMS_MISSING"
    assert is_one_sentence(refused.value)


def test_failing_initdb_is_reported_by_its_last_complaint(folder: Path) -> None:
    programs = folder / "programs"
    programs.mkdir()
    folder.chmod(0o755)
    for name in ("initdb", "postgres"):
        (programs / name).write_text(
            "#!/bin/sh\necho 'initdb: error: no space left' >&2\necho 'removing' >&2\nexit 1\n"
        )
        (programs / name).chmod(0o755)
    with pytest.raises(PostgresServerError, match="no space left") as refused:
        PostgresServer(folder / "server", programs).start()
    assert refused.value.code == "INITDB_FAILED"
    assert is_one_sentence(refused.value)


def test_folder_that_holds_something_else_is_left_alone(
    folder: Path, local_postgres: PostgresPrograms
) -> None:
    (folder / "thesis.txt").write_text("mine")
    with pytest.raises(PostgresServerError, match="something else") as refused:
        PostgresServer(folder, local_postgres.folder).start()
    assert refused.value.code == "FOLDER_UNUSABLE"
    assert is_one_sentence(refused.value)
    assert [path.name for path in folder.iterdir()] == ["thesis.txt"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root needs a stand-in")
def test_root_is_told_of_a_folder_that_its_stand_in_cannot_reach(
    folder: Path, local_postgres: PostgresPrograms
) -> None:
    with pytest.raises(PostgresServerError, match="temporary folder") as refused:
        PostgresServer(folder / "server", local_postgres.folder).start()
    assert refused.value.code == "FOLDER_UNUSABLE"
    assert is_one_sentence(refused.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root needs a stand-in")
def test_programs_that_roots_stand_in_cannot_reach_are_copied(folder: Path, tmp_path: Path) -> None:
    package = embedded_programs().parent.parent
    libraries = f"{package.name}.libs"
    shutil.copytree(package, tmp_path / package.name)
    shutil.copytree(package.with_name(libraries), tmp_path / libraries)
    with PostgresServer(folder, tmp_path / package.name / "pginstall" / "bin") as server:
        assert ask(server, "select 1") == 1


async def test_serving_stops_the_server_at_the_end(own_postgres_server: PostgresServer) -> None:
    own_postgres_server.stop()
    async with serving(own_postgres_server) as server:
        assert server.running
    assert not own_postgres_server.running


async def test_cancelled_start_leaves_no_server(own_postgres_server: PostgresServer) -> None:
    own_postgres_server.stop()

    async def serve() -> None:
        async with serving(own_postgres_server):
            await asyncio.Event().wait()

    task = asyncio.create_task(serve())
    await asyncio.sleep(0)  # it has begun
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not own_postgres_server.running
    own_postgres_server.start()
