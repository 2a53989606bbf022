from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("src", "tests", "benchmarks", "tools", "docs", "examples")


def absolute_imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module


def test_nobody_imports_the_package_by_its_folder() -> None:
    """A class imported once as src.x and once as messenger_jobs.x would be two classes."""
    offenders = [
        f"{path.relative_to(ROOT)}: {module}"
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        for module in absolute_imports(path)
        if module.partition(".")[0] == "src"
    ]
    assert not offenders
