from __future__ import annotations

import pytest

from tests.support.missing_server import missing_server


@pytest.mark.parametrize("value", ["true", "1", "yes"])
def test_in_ci_a_missing_server_fails_the_test(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", value)
    with pytest.raises(pytest.fail.Exception, match="no broker"):
        missing_server("no broker")


@pytest.mark.parametrize("value", ["", "false", "0"])
def test_elsewhere_a_missing_server_skips_the_test(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", value)
    with pytest.raises(pytest.skip.Exception, match="no broker"):
        missing_server("no broker")
