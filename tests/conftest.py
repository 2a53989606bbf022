"""What holds for every test: assertion rewriting, Hypothesis' profiles, the servers."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.database import DirectoryBasedExampleDatabase

# Contracts and support assert as well, but are imported, not collected: without this, before their import, a failure in
# them says "AssertionError" and nothing else.
pytest.register_assert_rewrite("tests.contract", "tests.support")

pytest_plugins = ["tests.support.kafka_servers", "tests.support.postgres_servers", "tests.support.s3_servers"]

# Hypothesis takes "ci" by itself where CI is set, else "default"; `--hypothesis-profile=fuzz` searches on. All of them
# keep what failed in a folder of the checkout and try it first in the next run: a CI that keeps the folder never loses
# a find. A loaded machine is slow: no deadline for a single example.
EXAMPLES: Final = Path(__file__).parents[1] / ".hypothesis" / "examples"

_DEFAULT = settings(
    settings.get_profile("default"), deadline=None, database=DirectoryBasedExampleDatabase(EXAMPLES)
)
settings.register_profile("default", _DEFAULT)
settings.register_profile(
    "ci", _DEFAULT, max_examples=200, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("fuzz", _DEFAULT, max_examples=20_000, print_blob=True)
# A mutant must be noticed, not explained: no smallest example is looked for, and none remembered for the next mutant.
settings.register_profile(
    "mutants", _DEFAULT, phases=[Phase.explicit, Phase.generate, Phase.target], database=None
)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Where to find the examples of a run that failed."""
    if terminalreporter.stats.get("failed") and EXAMPLES.is_dir():
        terminalreporter.write_line(f"Hypothesis keeps the examples that failed in {EXAMPLES}")
