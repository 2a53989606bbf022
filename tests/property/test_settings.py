"""Whatever stands in the environment, the settings are read, or refused with the names of those that are wrong."""

from __future__ import annotations

from hypothesis import event, given
from hypothesis import strategies as st
from messenger_jobs.entrypoints.settings import InvalidSettings, Settings, load_settings

from tools.reference.settings_page import settings_page

NAMES = sorted({word for word in settings_page().replace("`", " ").split() if word.startswith("MESSENGER_")})
ODD = (
    *(
        "",
        "0",
        "-1",
        "9" * 5_000,
        "1e400",
        "nan",
        "inf",
        "1_000",
        "١٢",
        "0x10",
        "1.5.1",
        "true",
        "YES",
        "\u202e5s",
    ),
    *(
        "5s",
        "-5s",
        "1000000000d",
        "PT5M",
        "1w",
        "5 s",
        "postgresql://",
        "postgresql://[::1",
        "postgresql://\udcff@db/x",
        "host=a port=b",
    ),
    *(
        "a:b:c",
        "a:99999",
        ":9092",
        "http://storage:9000/path",
        "..",
        "/",
        "SASL_SSL",
        "SCRAM-SHA-256",
        "json",
        "debug",
    ),
)
texts = st.sampled_from(ODD) | st.text(st.characters(codec=None), max_size=20)


def test_every_setting_is_tried() -> None:
    assert {"MESSENGER_DATABASE_URL", "MESSENGER_OUTBOX_RELAY_SEND_TIMEOUT"} < {*NAMES}


@given(st.dictionaries(st.sampled_from(NAMES), texts))
def test_any_environment_is_understood_or_refused_by_name(variables: dict[str, str]) -> None:
    try:
        settings = load_settings({"MESSENGER_DATABASE_URL": "postgresql://db.example/messenger", **variables})
    except InvalidSettings as refusal:
        event("refused")
        sentence = str(refusal)
        assert any(name in sentence for name in NAMES)
        assert "Traceback" not in sentence
    else:
        event("understood")
        assert isinstance(settings, Settings)
