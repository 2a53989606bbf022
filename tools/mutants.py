"""Mutation testing: breaks a layer of src/ in small ways and expects one of the layer's own tests to notice.

Usage: python tools/mutants.py [PATTERN ...]     PATTERN: "messenger_jobs.domain.backoff*"; without one, all layers

Prints every mutant that no test noticed as a diff, then the totals; exit code 1 where a layer has too few noticed.
A change that no test can notice, because it is no change, is marked in the source: `# pragma: no mutate`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

from attrs import frozen

NOTICED = {"killed", "timeout", "segfault"}
UNTESTED = "no tests"

ROOT = Path(__file__).resolve().parent.parent
STAGES = ROOT / ".mutants"
MUTMUT = [sys.executable, "-m", "mutmut"]
SECTION = "[tool.mutmut]\n"


@frozen(kw_only=True)
class Layer:
    """A package in src/, the share of its mutants that must be noticed, and the tests that must notice them."""

    name: str
    required: float
    tests: tuple[str, ...]

    @property
    def stage(self) -> Path:
        return STAGES / self.name

    @property
    def package(self) -> str:
        return f"messenger_jobs.{self.name}."

    def patterns(self, wanted: list[str]) -> list[str]:
        return [pattern for pattern in wanted if pattern.startswith(self.package)]

    def lay_out_stage(self) -> None:
        """mutmut finds a mutant by its module's name, so the package must stand under its import name, not as src/."""
        shutil.rmtree(self.stage, ignore_errors=True)  # its cache does not see that a test has changed
        self.stage.mkdir(parents=True)
        (self.stage / "messenger_jobs").symlink_to(ROOT / "src", target_is_directory=True)
        (self.stage / "tests").symlink_to(ROOT / "tests", target_is_directory=True)
        of_this_layer = {
            "only_mutate": [f"messenger_jobs/{self.name}/*"],
            "pytest_add_cli_args_test_selection": self.tests,
        }
        lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in of_this_layer.items())
        settings = (ROOT / "pyproject.toml").read_text()
        assert SECTION in settings
        (self.stage / "pyproject.toml").write_text(settings.replace(SECTION, SECTION + lines))

    def run(self, patterns: list[str]) -> None:
        path = self.stage / "log"
        with path.open("w") as log:
            output = None if sys.stdout.isatty() else log  # the progress line is for eyes only
            finished = subprocess.run(
                [*MUTMUT, "run", *patterns], cwd=self.stage, stdout=output, stderr=output, check=False
            )
        if finished.returncode:
            lines = path.read_text().replace("\r", "\n").splitlines()
            sys.exit("\n".join([*lines[-40:], "mutmut could not run"]))

    def ask(self, *arguments: str) -> str:
        return subprocess.run(
            [*MUTMUT, *arguments], cwd=self.stage, stdout=subprocess.PIPE, text=True, check=True
        ).stdout

    def verdicts(self) -> dict[str, str]:
        lines = (line.strip().rpartition(": ") for line in self.ask("results", "--all", "true").splitlines())
        return {
            name: verdict for name, _, verdict in lines if name and verdict not in {"not checked", "skipped"}
        }

    def hold(self, patterns: list[str]) -> bool:
        """Whether enough mutants are noticed."""
        self.lay_out_stage()
        self.run(patterns)
        found = self.verdicts()
        for name, verdict in sorted(found.items()):
            if verdict not in {*NOTICED, UNTESTED}:
                print(self.ask("show", name))
        for function in sorted({name.partition("__mutmut_")[0] for name in found if found[name] == UNTESTED}):
            print(f"no test calls {function}")
        noticed = sum(verdict in NOTICED for verdict in found.values())
        share = noticed / len(found) if found else 0.0
        counts = ", ".join(f"{count} {verdict}" for verdict, count in Counter(found.values()).most_common())
        print(
            f"{self.name}: {len(found)} mutants: {counts}. Noticed: {share:.1%}, required: {self.required:.0%}."
        )
        return share >= self.required


LAYERS = (
    Layer(name="domain", required=0.95, tests=("tests/unit/domain", "tests/property")),
    Layer(
        name="application",
        required=0.90,
        tests=("tests/unit/application", "tests/property/test_outbox_relay.py"),
    ),
)


def main(wanted: list[str]) -> int:
    layers = [layer for layer in LAYERS if layer.patterns(wanted) or not wanted]
    if not layers:
        sys.exit(f"PATTERN begins with {' or '.join(layer.package for layer in LAYERS)}")
    held = [layer.hold(layer.patterns(wanted)) for layer in layers]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
