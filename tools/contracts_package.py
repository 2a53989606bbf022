"""Puts the ports' contract tests into the wheel, as the package `messenger_jobs_contracts`.

They are written and run as ``tests/contract`` here; a build copies them, and what they need of ``tests/support``, under
a name that cannot clash with an author's own ``tests``. Test modules and what belongs to one driver stay behind.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = "messenger_jobs_contracts"
NEW_NAME = {"contract": PACKAGE, "support": f"{PACKAGE}.support"}
IMPORT = re.compile(r"^from tests\.(contract|support)\.(\w+) import", re.MULTILINE)
LEFT_BEHIND = re.compile(r"test_|conftest|.*(postgres|kafka)")


class ContractsPackage(BuildHookInterface[Any]):
    """Adds the package to a wheel; an editable installation has the checkout, and uses ``tests.contract``."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Lay the package out in a folder of its own, and include every file of it."""
        self._folder = None
        if version == "editable":
            return
        self._folder = Path(tempfile.mkdtemp())
        for name, text in modules(Path(self.root) / "tests"):
            path = self._folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
            build_data["force_include"][str(path)] = f"{PACKAGE}/{name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the folder."""
        del version, build_data, artifact_path
        if self._folder is not None:
            shutil.rmtree(self._folder)


def modules(tests: Path) -> Iterator[tuple[str, str]]:
    """The package's files by their path in it, with their text."""
    yield "py.typed", ""
    yield "support/__init__.py", '"""What the contracts need besides: builders, and ways to interrupt."""\n'
    contracts = [path for path in (tests / "contract").glob("*.py") if not LEFT_BEHIND.match(path.name)]
    waiting = sorted(contracts)
    taken = set(waiting)
    while waiting:
        path = waiting.pop(0)
        text = path.read_text(encoding="utf-8")
        name = path.name if path.parent.name == "contract" else f"support/{path.name}"
        yield name, IMPORT.sub(lambda match: f"from {NEW_NAME[match[1]]}.{match[2]} import", text)
        for match in IMPORT.finditer(text):
            needed = tests / match[1] / f"{match[2]}.py"
            if needed not in taken:
                taken.add(needed)
                waiting.append(needed)
