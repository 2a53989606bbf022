"""Puts deliberate defects into a copy of the tree, one at a time, and expects the simulation or a test to notice each.

Usage: python -m tools.seeded_bugs [WORD ...]     WORD: part of a defect's name; without one, all of them

Prints what noticed each defect; exit code 1 when nothing did. The working tree is never touched. A defect is a text
that must stand exactly once in its file: where the code has moved on, this fails and the defect must be put anew.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tools.seeded_defects import DEFECTS, Defect

ROOT = Path(__file__).resolve().parent.parent
COPIED = ("src", "tests", ".import-root", "pyproject.toml")
HISTORIES = "4000"
SECONDS = 300
"""After which a run says nothing: the machine may be busy. A test that hangs fails earlier, by itself."""
TIMED_OUT = 124


def copy_tree(stage: Path) -> None:
    """What the tests need, importable under the package's name."""
    for name in COPIED:
        source, target = ROOT / name, stage / name
        if source.is_dir():
            shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, target)


def put(defect: Defect, stage: Path) -> None:
    """Write the defect into the copy. Raises `SystemExit` when its text is not there exactly once."""
    for change in defect.changes:
        path = stage / change.path
        text = path.read_text(encoding="utf-8")
        found = text.count(change.before)
        if found != 1:
            sys.exit(f"{defect.name}: the text to replace stands {found} times in {change.path}, not once")
        path.write_text(text.replace(change.before, change.after), encoding="utf-8")


def run(stage: Path, *arguments: str) -> tuple[int, str]:
    """Exit code and output of a Python command that finds the copy instead of the installed package."""
    environment = {
        **os.environ,
        "PYTHONPATH": f"{stage}/.import-root:{stage}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [sys.executable, *arguments]
    try:
        finished = subprocess.run(
            command, cwd=stage, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return TIMED_OUT, f"did not end within {SECONDS} s"
    return finished.returncode, finished.stdout + finished.stderr


def simulate(stage: Path, histories: str) -> tuple[int, str]:
    """Some histories, of always the same seed."""
    return run(stage, "-m", "tests.simulation", "--histories", histories, "--unshrunk")


def expect_nothing_wrong_without_defects() -> None:
    """Otherwise everything would count as noticed."""
    with tempfile.TemporaryDirectory(prefix="seeded-bug-") as folder:
        copy_tree(Path(folder))
        code, output = simulate(Path(folder), "500")
    if code:
        sys.exit(f"{output}\nthe simulation fails without any defect")


def noticed_by(defect: Defect, stage: Path) -> str | None:
    """What noticed it, in one line; None when nothing did."""
    code, output = 0, ""
    if defect.simulated:
        code, output = simulate(stage, HISTORIES)
        if code not in {0, TIMED_OUT}:
            claims = re.findall(r"^  (\[\d+\] [^:]*)", output, re.MULTILINE) or output.splitlines()[-1:]
            return f"simulation: {claims[0] if claims else code}"
    if defect.tests:
        code, output = run(
            stage,
            "-m",
            "pytest",
            "-xq",
            "--no-header",
            "--timeout=60",
            "-p",
            "no:cacheprovider",
            *defect.tests,
        )
        if code not in {0, TIMED_OUT}:
            failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE) or output.splitlines()[-1:]
            return failed[0] if failed else f"pytest: {code}"
    return None


def check(defect: Defect) -> bool:
    """Whether the defect was noticed; says by what."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="seeded-bug-") as folder:
        stage = Path(folder)
        copy_tree(stage)
        put(defect, stage)
        found = noticed_by(defect, stage)
    print(f"{time.perf_counter() - started:5.1f} s  {defect.name}: {found or 'NOT NOTICED'}", flush=True)
    return found is not None


def main(words: list[str]) -> int:
    """See the module."""
    expect_nothing_wrong_without_defects()
    chosen = [defect for defect in DEFECTS if not words or any(word in defect.name for word in words)]
    noticed = [check(defect) for defect in chosen]
    print(f"{sum(noticed)} of {len(noticed)} defects noticed.")
    return 0 if noticed and all(noticed) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
