"""What holds for every test: assertion rewriting, Hypothesis' profiles, the servers."""

from __future__ import annotations

import pytest
from hypothesis import Phase, settings

# Contracts and support assert as well, but are imported, not collected: without this, before their import, a failure in
# them says "AssertionError" and nothing else.
pytest.register_assert_rewrite("tests.contract", "tests.support")

pytest_plugins = ["tests.support.kafka_servers", "tests.support.postgres_servers", "tests.support.s3_servers"]

# Hypothesis takes "ci" by itself where CI is set (the same examples in every run), else "default";
# `--hypothesis-profile=fuzz` searches on. A loaded machine is slow: no deadline for a single example.
_DEFAULT = settings(settings.get_profile("default"), deadline=None)
settings.register_profile("default", _DEFAULT)
settings.register_profile("ci", settings.get_profile("ci"), max_examples=200)
settings.register_profile("fuzz", _DEFAULT, max_examples=20_000, print_blob=True)
# A mutant must be noticed, not explained: no smallest example is looked for, and none remembered for the next mutant.
settings.register_profile(
    "mutants", _DEFAULT, phases=[Phase.explicit, Phase.generate, Phase.target], database=None
)
