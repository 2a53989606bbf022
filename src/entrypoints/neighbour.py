"""What a worker on this host says about its cycles, through its metrics."""

from __future__ import annotations

import urllib.request
from collections.abc import Mapping
from datetime import UTC, datetime
from http.client import HTTPException
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

_TIMEOUT: Final = 1.0  # seconds
_LAST_SUCCESS: Final = "messenger_job_last_success_timestamp_seconds"


def last_successes(port: int) -> Mapping[str, datetime]:
    """When each job last succeeded, as the worker on ``port`` remembers; empty when there is no worker to ask.

    Blocks its thread for a second at most, unless the worker drips its answer.
    """
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(f"http://127.0.0.1:{port}/metrics", timeout=_TIMEOUT) as answer:
            families = list(text_string_to_metric_families(answer.read().decode()))
    except (OSError, HTTPException, ValueError):
        return {}
    return {
        sample.labels["job"]: datetime.fromtimestamp(sample.value, UTC)
        for family in families
        for sample in family.samples
        if sample.name == _LAST_SUCCESS and sample.value > 0
    }
