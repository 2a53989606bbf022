"""Code on the pages: Python runs, shell names commands, options and targets that there are."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import typer
from messenger_jobs.entrypoints.cli import app

from tests.docs.markdown import PAGES, ROOT, CodeBlock, code_blocks
from tools.contracts_package import PACKAGE, modules

PYTHON: Final = [block for page in PAGES for block in code_blocks(page, "python")]
SHELL: Final = [block for page in PAGES for block in code_blocks(page, "console", "sh", "bash", "shell")]
TARGETS: Final = set(
    re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
)


@pytest.fixture(scope="module")
def contracts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package that a wheel brings."""
    folder = tmp_path_factory.mktemp("contracts")
    for name, text in modules(ROOT / "tests"):
        path = folder / PACKAGE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize("block", PYTHON, ids=lambda block: block.place)
def test_python_runs(block: CodeBlock, contracts: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", block.text],
        env={**os.environ, "PYTHONPATH": str(contracts)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("block", SHELL, ids=lambda block: block.place)
def test_shell_names_what_there_is(block: CodeBlock) -> None:
    assert list(complaints(block.text)) == []


def test_complaints_are_made() -> None:
    wrong = """
        messenger-jobs nothing
        make nothing
        messenger-jobs list chat-provision-retry --nothing
        python tools/nothing.py
    """
    right = """
        make demo # see
        messenger-jobs outbox list --json | jq .
        FOO=1 messenger-jobs run-once \\
            chat-provision-retry --dry-run
    """
    assert len(list(complaints(wrong))) == 4
    assert list(complaints(right)) == []


def complaints(text: str) -> Iterator[str]:
    for line in text.replace("\\\n", " ").splitlines():
        words = list(shlex.shlex(line, posix=True, punctuation_chars="|;&()<>"))
        for position, word in enumerate(words):
            following = words[position + 1 :]
            if word == "messenger-jobs" and not (
                position and words[position - 1] in ("install", "deploy", "run")
            ):
                yield from complaints_about(following)
            elif word == "make" and following and following[0] not in TARGETS:
                yield f"no target {following[0]}"
            elif re.fullmatch(r"(tools|benchmarks|examples|tests)/\S+", word) and not (ROOT / word).exists():
                yield f"no file {word}"


def complaints_about(words: list[str]) -> Iterator[str]:
    command: Any = typer.main.get_command(app)
    for word in words:
        if re.fullmatch(r"[|;&()<>]+", word):
            return
        if hasattr(command, "commands"):
            if word not in command.commands and word not in ("--help", "COMMAND"):
                yield f"no command {word}"
                return
            command = command.commands.get(word, command)
        elif word.startswith("--") and word not in options(command):
            yield f"{command.name} has no option {word}"


def options(command: Any) -> set[str]:
    return {"--help", *(option for parameter in command.params for option in parameter.opts)}
