"""Mutation testing of the domain: breaks src/domain in small ways and expects a unit or property test to notice.

Usage: python tools/mutants.py [PATTERN ...]     PATTERN: "messenger_jobs.domain.backoff*"; without one, all of it

Prints every mutant that no test noticed as a diff, then the totals; exit code 1 below 95 % noticed.
A change that no test can notice, because it is no change, is marked in the source: `# pragma: no mutate`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

REQUIRED = 0.95
NOTICED = {"killed", "timeout", "segfault"}
UNTESTED = "no tests"

ROOT = Path(__file__).resolve().parent.parent
STAGE = ROOT / ".mutants"
LOG = STAGE / "log"
MUTMUT = [sys.executable, "-m", "mutmut"]


def lay_out_stage() -> None:
    """mutmut finds a mutant by its module's name, so the package must stand under its import name, not as src/."""
    shutil.rmtree(STAGE, ignore_errors=True)  # its cache does not see that a test has changed
    STAGE.mkdir()
    (STAGE / "messenger_jobs").symlink_to("../src", target_is_directory=True)
    (STAGE / "tests").symlink_to("../tests", target_is_directory=True)
    (STAGE / "pyproject.toml").symlink_to("../pyproject.toml")


def run(patterns: list[str]) -> None:
    with LOG.open("w") as log:
        output = None if sys.stdout.isatty() else log  # the progress line is for eyes only
        finished = subprocess.run(
            [*MUTMUT, "run", *patterns], cwd=STAGE, stdout=output, stderr=output, check=False
        )
    if finished.returncode:
        lines = LOG.read_text().replace("\r", "\n").splitlines()
        sys.exit("\n".join([*lines[-40:], "mutmut could not run"]))


def ask(*arguments: str) -> str:
    return subprocess.run(
        [*MUTMUT, *arguments], cwd=STAGE, stdout=subprocess.PIPE, text=True, check=True
    ).stdout


def verdicts() -> dict[str, str]:
    lines = (line.strip().rpartition(": ") for line in ask("results", "--all", "true").splitlines())
    return {name: verdict for name, _, verdict in lines if name and verdict not in {"not checked", "skipped"}}


def main(patterns: list[str]) -> int:
    lay_out_stage()
    run(patterns)
    found = verdicts()
    for name, verdict in sorted(found.items()):
        if verdict not in {*NOTICED, UNTESTED}:
            print(ask("show", name))
    for function in sorted({name.partition("__mutmut_")[0] for name in found if found[name] == UNTESTED}):
        print(f"no test calls {function}")
    noticed = sum(verdict in NOTICED for verdict in found.values())
    share = noticed / len(found) if found else 0.0
    counts = ", ".join(f"{count} {verdict}" for verdict, count in Counter(found.values()).most_common())
    print(f"{len(found)} mutants: {counts}. Noticed: {share:.1%}, required: {REQUIRED:.0%}.")
    return 0 if share >= REQUIRED else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
