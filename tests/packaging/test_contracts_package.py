"""The ports' contract tests are in the wheel, and hold an author's adapter as they hold ours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

PORTS = {
    "clock": "ClockContract",
    "finalization_store": "FinalizationStoreContract",
    "outbox": "OutboxContract",
    "outbox_queue": "OutboxQueueContract",
    "provisioning_store": "ProvisioningStoreContract",
    "recording_storage": "RecordingStorageContract",
    "run_locks": "RunLocksContract",
}

CONFTEST = """
import pytest

pytest.register_assert_rewrite("messenger_jobs_contracts")
"""

AUTHORS_TESTS = """
from datetime import timedelta

import pytest
from messenger_jobs.adapters.memory import ManualClock, MemoryRunLocks, RunLockServer
from messenger_jobs_contracts.run_locks import RunLocksContract, RunLocksHarness

TTL = timedelta(minutes=5)


class Harness(RunLocksHarness):
    def __init__(self):
        self.clock = ManualClock()
        self.server = RunLockServer(self.clock, TTL)
        self.locks = MemoryRunLocks(self.server, self.clock)
        self.other = MemoryRunLocks(self.server, self.clock)

    async def pass_time(self, part):
        self.clock.advance(TTL * part)

    async def end_session(self, name):
        self.server.end_session(name)

    async def assert_nothing_left(self):
        assert self.server.held == []


class TestAuthorsRunLocks(RunLocksContract):
    @pytest.fixture
    async def harness(self):
        return Harness()
"""


@pytest.fixture(scope="module")
def author(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of somebody who installed the wheel and writes tests for an adapter."""
    folder = tmp_path_factory.mktemp("author")
    with ZipFile(wheel) as archive:
        archive.extractall(
            folder, [name for name in archive.namelist() if name.startswith("messenger_jobs_contracts/")]
        )
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_run_locks.py").write_text(AUTHORS_TESTS)
    (folder / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")
    return folder


def run_there(author: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=author, capture_output=True, text=True, check=False)


def test_every_module_of_it_is_imported_without_our_tests(author: Path) -> None:
    names = [
        ".".join(path.relative_to(author).with_suffix("").parts)
        for path in (author / "messenger_jobs_contracts").rglob("*.py")
    ]
    ported = [f"messenger_jobs_contracts.{module}:{name}" for module, name in PORTS.items()]
    program = (
        "import sys; from importlib import import_module; from pkgutil import resolve_name\n"
        f"for name in {names!r}: import_module(name.removesuffix('.__init__'))\n"
        f"for name in {ported!r}: resolve_name(name)\n"
        "assert not [name for name in sys.modules if name.partition('.')[0] in ('tests', 'psycopg')]"
    )
    imported = run_there(author, "-c", program)
    assert imported.returncode == 0, imported.stderr


def test_authors_adapter_that_keeps_the_contract_passes(author: Path) -> None:
    run = run_there(author, "-m", "pytest", "-q", "test_run_locks.py")
    assert run.returncode == 0, run.stdout
    assert " passed" in run.stdout


def test_authors_adapter_that_breaks_the_contract_fails_and_says_where(author: Path) -> None:
    """Here a lock that everybody gets: the other process asks a server of its own."""
    broken = AUTHORS_TESTS.replace(
        "MemoryRunLocks(self.server, self.clock)\n\n",
        "MemoryRunLocks(RunLockServer(self.clock, TTL), self.clock)\n\n",
    )
    assert broken != AUTHORS_TESTS
    (author / "test_broken.py").write_text(broken)
    run = run_there(author, "-m", "pytest", "-q", "test_broken.py")
    assert run.returncode == 1
    assert "messenger_jobs_contracts/run_locks.py" in run.stdout
    assert "assert " in run.stdout
