"""Whether testcontainers can be used here."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path


@cache
def docker_answers() -> bool:
    """Asked without importing testcontainers, whose import alone can cost seconds."""
    if "DOCKER_HOST" not in os.environ and not Path("/var/run/docker.sock").exists():
        return False  # the two places where the client looks; its import costs every test run half a second

    import docker  # type: ignore[import-untyped]  # ships no types
    from docker.errors import DockerException  # type: ignore[import-untyped]  # ships no types

    try:
        with_engine = docker.from_env(timeout=5)
    except DockerException:
        return False
    try:
        return bool(with_engine.ping())
    except (DockerException, OSError):
        return False
    finally:
        with_engine.close()
