from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.docs.markdown import PAGES, ROOT


def test_site_is_built_without_a_warning_and_shows_every_page(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet"]
    built = subprocess.run(
        [*command, "-d", str(tmp_path / "doctrees"), str(ROOT / "docs"), str(tmp_path / "site")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    docs = [page.relative_to(ROOT / "docs") for page in PAGES if page.is_relative_to(ROOT / "docs")]
    assert [page for page in docs if not (tmp_path / "site" / page.with_suffix(".html")).exists()] == []
