"""What arrived, held against what was committed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from messenger_jobs.entrypoints.demo.arrivals import Arrivals, arrivals

COMMITTED = [("one", "deal 1"), ("two", "deal 2"), ("three", "deal 1")]
AS_PROMISED = Arrivals(events=3, repeated=0, missing=0, uncommitted=0, disordered=0)


def arrived(folder: Path, *event_ids: str) -> Arrivals:
    file = folder / "events.jsonl"
    file.write_text("".join(json.dumps({"headers": [["event-id", id_]]}) + "\n" for id_ in event_ids))
    return arrivals(file, COMMITTED)


def test_everything_once_and_in_order_is_as_promised(tmp_path: Path) -> None:
    assert arrived(tmp_path, "one", "two", "three") == AS_PROMISED
    assert AS_PROMISED.as_promised


def test_other_keys_may_overtake(tmp_path: Path) -> None:
    assert arrived(tmp_path, "two", "one", "three").as_promised


def test_repetition_is_counted_and_as_promised(tmp_path: Path) -> None:
    result = arrived(tmp_path, "one", "two", "one", "three", "one")

    assert (result.events, result.repeated) == (3, 2)
    assert result.as_promised


@pytest.mark.parametrize(
    ("event_ids", "wrong"),
    [
        (("one", "two"), "missing"),
        (("one", "two", "three", "four"), "uncommitted"),
        (("three", "two", "one"), "disordered"),
    ],
)
def test_anything_else_is_not(tmp_path: Path, event_ids: tuple[str, ...], wrong: str) -> None:
    result = arrived(tmp_path, *event_ids)

    assert getattr(result, wrong) == 1
    assert not result.as_promised
