"""Prometheus' own tool, which knows what Prometheus understands."""

from __future__ import annotations

import shutil
import subprocess

from tests.support.missing_server import missing_server


def promtool(*arguments: object) -> subprocess.CompletedProcess[str]:
    program = shutil.which("promtool")
    if program is None:
        missing_server("no promtool here: install Debian's package prometheus")
    return subprocess.run(
        [program, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False
    )
