from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.e2e.rows import Rows

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "cron.sh"


def cron(url: str, *jobs: str) -> subprocess.CompletedProcess[str]:
    others = {name: text for name, text in os.environ.items() if not name.startswith("MESSENGER_")}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return subprocess.run(
        ["sh", str(SCRIPT), *jobs],
        env={**others, "PATH": path, "MESSENGER_DATABASE_URL": url},
        capture_output=True,
        text=True,
        check=False,
    )


def test_each_run_is_one_cycle_and_says_what_it_came_to(database_url: str) -> None:
    rows = Rows(database_url)
    rows.seed(2)
    first, second = (cron(database_url, "chat-provision-retry") for _ in range(2))
    assert (first.returncode, second.returncode) == (0, 0)
    assert [json.loads(run.stdout)["provisioned"] for run in (first, second)] == [2, 0]
    assert all(row.ready_at_the_first_attempt for row in rows.all())


def test_job_that_cannot_run_fails_the_whole_and_keeps_nobody_from_running(database_url: str) -> None:
    rows = Rows(database_url)
    rows.seed(1)
    run = cron(database_url, "no-such-job", "chat-provision-retry")
    assert run.returncode == 1
    assert rows.count("Ready") == 1
