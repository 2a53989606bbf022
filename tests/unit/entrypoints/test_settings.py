"""Settings: every one of them, good and bad, and the one report about all that is wrong."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from messenger_jobs.application.options import (
    ChatProvisionRetryOptions,
    OutboxRelayOptions,
    RecordingFinalizeRetryOptions,
)
from messenger_jobs.entrypoints.settings import (
    InvalidSettings,
    Settings,
    likely_typos,
    load_settings,
    variable,
)

URL = "postgresql://worker:s3cr3t-word@db.example:5432/messenger"
REQUIRED = {"MESSENGER_DATABASE_URL": URL}
CHAT = "MESSENGER_CHAT_PROVISION_RETRY_"
RECORDING = "MESSENGER_RECORDING_FINALIZE_RETRY_"
RELAY = "MESSENGER_OUTBOX_RELAY_"
KAFKA = "MESSENGER_KAFKA_"
SASL = {
    f"{KAFKA}SECURITY_PROTOCOL": "SASL_SSL",
    f"{KAFKA}SASL_MECHANISM": "SCRAM-SHA-512",
    f"{KAFKA}SASL_USERNAME": "worker",
    f"{KAFKA}SASL_PASSWORD": "s3cr3t-word",
}


def problems(variables: dict[str, str], file: Path | None = None) -> dict[str, str]:
    with pytest.raises(InvalidSettings) as report:
        load_settings(variables, file)
    return dict(report.value.problems)


def test_defaults_are_those_of_the_jobs() -> None:
    settings = load_settings(REQUIRED)

    assert settings.database_url == URL
    assert settings.lock_url == URL
    assert settings.http_port == 0
    assert settings.log_format is None
    assert settings.log_level == "info"
    assert settings.shutdown_grace == timedelta(seconds=30)
    assert settings.chat_provision_retry == ChatProvisionRetryOptions()
    assert settings.recording_finalize_retry == RecordingFinalizeRetryOptions()
    assert settings.outbox_relay == OutboxRelayOptions()
    assert settings.kafka_bootstrap_servers is None
    assert settings.kafka_security_protocol == "PLAINTEXT"
    assert not settings.recordings_enabled
    assert settings.s3_secure


def chat(settings: Settings) -> ChatProvisionRetryOptions:
    return settings.chat_provision_retry


def recording(settings: Settings) -> RecordingFinalizeRetryOptions:
    return settings.recording_finalize_retry


GOOD: list[tuple[str, str, Callable[[Settings], Any], Any]] = [
    ("MESSENGER_DATABASE_URL", "postgres://h/d", lambda s: s.database_url, "postgres://h/d"),
    ("MESSENGER_LOCK_DATABASE_URL", "postgresql://lock/d", lambda s: s.lock_url, "postgresql://lock/d"),
    ("MESSENGER_HTTP_PORT", "9100", lambda s: s.http_port, 9100),
    ("MESSENGER_LOG_FORMAT", "console", lambda s: s.log_format, "console"),
    ("MESSENGER_LOG_FORMAT", "JSON", lambda s: s.log_format, "json"),
    ("MESSENGER_LOG_LEVEL", "Debug", lambda s: s.log_level, "debug"),
    ("MESSENGER_SHUTDOWN_GRACE", "1m", lambda s: s.shutdown_grace, timedelta(minutes=1)),
    (f"{CHAT}POLLING_INTERVAL", "5s", lambda s: chat(s).polling_interval, timedelta(seconds=5)),
    (f"{CHAT}BATCH_SIZE", "7", lambda s: chat(s).batch_size, 7),
    (f"{CHAT}MAX_ATTEMPTS", "3", lambda s: chat(s).max_attempts, 3),
    (f"{CHAT}MAX_RUN_DURATION", "1m", lambda s: chat(s).max_run_duration, timedelta(minutes=1)),
    (f"{CHAT}LOCK_TTL", "1h", lambda s: chat(s).lock_ttl, timedelta(hours=1)),
    (f"{CHAT}BACKOFF_BASE", "10", lambda s: chat(s).backoff_base, timedelta(seconds=10)),
    (f"{CHAT}BACKOFF_FACTOR", "1.5", lambda s: chat(s).backoff_factor, 1.5),
    (f"{CHAT}BACKOFF_CAP", "1h", lambda s: chat(s).backoff_cap, timedelta(hours=1)),
    (f"{CHAT}BACKOFF_JITTER", "0", lambda s: chat(s).backoff_jitter, 0.0),
    (f"{CHAT}CONCURRENCY", "1", lambda s: chat(s).concurrency, 1),
    (
        f"{CHAT}STUCK_PROVISIONING_AFTER",
        "0",
        lambda s: chat(s).stuck_provisioning_after,
        timedelta(0),
    ),
    ("MESSENGER_RECORDINGS_ENABLED", "off", lambda s: s.recordings_enabled, False),
    ("MESSENGER_S3_ENDPOINT", "storage.example:9000", lambda s: s.s3_endpoint, "storage.example:9000"),
    ("MESSENGER_S3_ENDPOINT", "[::1]:9000", lambda s: s.s3_endpoint, "[::1]:9000"),
    ("MESSENGER_S3_ACCESS_KEY", "key", lambda s: s.s3_access_key, "key"),
    ("MESSENGER_S3_SECRET_KEY", "word", lambda s: s.s3_secret_key, "word"),
    ("MESSENGER_S3_REGION", "ru-central1", lambda s: s.s3_region, "ru-central1"),
    ("MESSENGER_S3_SECURE", "False", lambda s: s.s3_secure, False),
    ("MESSENGER_S3_BUCKET_CALL_RECORDINGS", "calls", lambda s: s.s3_bucket_call_recordings, "calls"),
    (f"{RECORDING}POLLING_INTERVAL", "5s", lambda s: recording(s).polling_interval, timedelta(seconds=5)),
    (f"{RECORDING}BATCH_SIZE", "7", lambda s: recording(s).batch_size, 7),
    (f"{RECORDING}MAX_ATTEMPTS", "3", lambda s: recording(s).max_attempts, 3),
    (f"{RECORDING}MAX_RUN_DURATION", "1m", lambda s: recording(s).max_run_duration, timedelta(minutes=1)),
    (f"{RECORDING}LOCK_TTL", "1h", lambda s: recording(s).lock_ttl, timedelta(hours=1)),
    (f"{RECORDING}BACKOFF_BASE", "30", lambda s: recording(s).backoff_base, timedelta(seconds=30)),
    (f"{RECORDING}BACKOFF_FACTOR", "1.5", lambda s: recording(s).backoff_factor, 1.5),
    (f"{RECORDING}BACKOFF_CAP", "1h", lambda s: recording(s).backoff_cap, timedelta(hours=1)),
    (f"{RECORDING}BACKOFF_JITTER", "0", lambda s: recording(s).backoff_jitter, 0.0),
    (f"{RECORDING}CONCURRENCY", "1", lambda s: recording(s).concurrency, 1),
    (f"{RECORDING}FINALIZE_SLA_TIMEOUT", "0", lambda s: recording(s).finalize_sla_timeout, timedelta(0)),
    (f"{RECORDING}STORAGE_TIMEOUT", "47s", lambda s: recording(s).storage_timeout, timedelta(seconds=47)),
    (f"{RELAY}POLLING_INTERVAL", "2", lambda s: s.outbox_relay.polling_interval, timedelta(seconds=2)),
    (f"{RELAY}BATCH_SIZE", "50", lambda s: s.outbox_relay.batch_size, 50),
    (f"{RELAY}RETENTION", "1d", lambda s: s.outbox_relay.retention, timedelta(days=1)),
    (f"{RELAY}SEND_TIMEOUT", "10s", lambda s: s.outbox_relay.send_timeout, timedelta(seconds=10)),
    (f"{KAFKA}BOOTSTRAP_SERVERS", "a:1", lambda s: s.kafka_bootstrap_servers, "a:1"),
    (
        f"{KAFKA}BOOTSTRAP_SERVERS",
        "a-1.b:9092, [::1]:2",
        lambda s: s.kafka_bootstrap_servers,
        "a-1.b:9092,[::1]:2",
    ),
    (f"{KAFKA}SECURITY_PROTOCOL", "ssl", lambda s: s.kafka_security_protocol, "SSL"),
    (f"{KAFKA}SASL_MECHANISM", "plain", lambda s: s.kafka_sasl_mechanism, "PLAIN"),
    (f"{KAFKA}SASL_USERNAME", "me", lambda s: s.kafka_sasl_username, "me"),
    (f"{KAFKA}SASL_PASSWORD", "word", lambda s: s.kafka_sasl_password, "word"),
    (f"{KAFKA}SSL_CAFILE", __file__, lambda s: s.kafka_ssl_cafile, Path(__file__)),
]


@pytest.mark.parametrize(("name", "text", "read", "value"), GOOD)
def test_every_setting_is_read(name: str, text: str, read: Callable[[Settings], Any], value: object) -> None:
    others = SASL if name.startswith((f"{KAFKA}SASL_", f"{KAFKA}SSL_")) else {}
    assert read(load_settings(REQUIRED | others | {name: text})) == value


A_DURATION = "must be seconds or a duration such as 90s, 5m, 1h or 7d"
A_URL = "must be a URL such as postgresql://user:password@host:5432/database"


WRONG = [
    ("MESSENGER_DATABASE_URL", "", "is not set"),
    ("MESSENGER_DATABASE_URL", "mysql://h/d", A_URL),
    ("MESSENGER_DATABASE_URL", "host=db password=x", A_URL),
    ("MESSENGER_DATABASE_URL", "postgresql://u:100%@h/d", A_URL),
    ("MESSENGER_LOCK_DATABASE_URL", "nowhere", A_URL),
    ("MESSENGER_HTTP_PORT", "tcp://10.0.0.1:80", "must be a port between 1 and 65535, or 0 for none"),
    ("MESSENGER_HTTP_PORT", "65536", "must be a port between 1 and 65535, or 0 for none"),
    ("MESSENGER_HTTP_PORT", "-1", "must be a port between 1 and 65535, or 0 for none"),
    ("MESSENGER_LOG_FORMAT", "xml", "must be json or console"),
    ("MESSENGER_LOG_LEVEL", "loud", "must be debug, info, warning or error"),
    ("MESSENGER_SHUTDOWN_GRACE", "soon", A_DURATION),
    (f"{CHAT}POLLING_INTERVAL", "0", "must be longer than 0 seconds"),
    (f"{CHAT}POLLING_INTERVAL", "often", A_DURATION),
    (f"{CHAT}BATCH_SIZE", "0", "must be between 1 and 10000"),
    (f"{CHAT}BATCH_SIZE", "1.5", "must be a whole number"),
    (f"{CHAT}MAX_ATTEMPTS", "51", "must be between 1 and 50"),
    (f"{CHAT}MAX_RUN_DURATION", "0s", "must be longer than 0 seconds"),
    (f"{CHAT}LOCK_TTL", "3m", f"must be longer than {CHAT}MAX_RUN_DURATION"),
    (f"{CHAT}BACKOFF_BASE", "0", "must be longer than 0 seconds"),
    (f"{CHAT}BACKOFF_CAP", "59", f"must not be shorter than {CHAT}BACKOFF_BASE"),
    (f"{CHAT}BACKOFF_FACTOR", "0.9", "must be a finite number of at least 1"),
    (f"{CHAT}BACKOFF_FACTOR", "nan", "must be a finite number of at least 1"),
    (f"{CHAT}BACKOFF_FACTOR", "two", "must be a number"),
    (f"{CHAT}BACKOFF_JITTER", "1", "must be at least 0 and below 1"),
    (f"{CHAT}CONCURRENCY", "65", "must be between 1 and 64"),
    (f"{CHAT}STUCK_PROVISIONING_AFTER", "366d", "must not be longer than 365d"),
    ("MESSENGER_RECORDINGS_ENABLED", "maybe", "must be true or false"),
    (
        "MESSENGER_S3_ENDPOINT",
        "https://storage.example",
        "must be host or host:port; MESSENGER_S3_SECURE says whether it speaks TLS",
    ),
    ("MESSENGER_S3_SECURE", "tls", "must be true or false"),
    (
        "MESSENGER_S3_BUCKET_CALL_RECORDINGS",
        "CALL_RECORDINGS",
        "must be a bucket's name: 3 to 63 lower-case letters, digits, dots and hyphens",
    ),
    (f"{RECORDING}POLLING_INTERVAL", "0", "must be longer than 0 seconds"),
    (f"{RECORDING}BATCH_SIZE", "0", "must be between 1 and 10000"),
    (f"{RECORDING}MAX_ATTEMPTS", "51", "must be between 1 and 50"),
    (f"{RECORDING}MAX_RUN_DURATION", "0s", "must be longer than 0 seconds"),
    (f"{RECORDING}LOCK_TTL", "3m", f"must be longer than {RECORDING}MAX_RUN_DURATION"),
    (f"{RECORDING}BACKOFF_BASE", "0", "must be longer than 0 seconds"),
    (f"{RECORDING}BACKOFF_CAP", "59", f"must not be shorter than {RECORDING}BACKOFF_BASE"),
    (f"{RECORDING}BACKOFF_FACTOR", "0.9", "must be a finite number of at least 1"),
    (f"{RECORDING}BACKOFF_JITTER", "1", "must be at least 0 and below 1"),
    (f"{RECORDING}CONCURRENCY", "65", "must be between 1 and 64"),
    (f"{RECORDING}FINALIZE_SLA_TIMEOUT", "366d", "must not be longer than 365d"),
    (f"{RECORDING}STORAGE_TIMEOUT", "0", "must be longer than 0 seconds"),
    (
        f"{RECORDING}STORAGE_TIMEOUT",
        "48s",
        f"must be shorter than the shortest first delay, {RECORDING}BACKOFF_BASE * (1 - {RECORDING}BACKOFF_JITTER)",
    ),
    (f"{RELAY}POLLING_INTERVAL", "0", "must be longer than 0 seconds"),
    (f"{RELAY}BATCH_SIZE", "0", "must be between 1 and 10000"),
    (f"{RELAY}RETENTION", "11y", A_DURATION),
    (f"{RELAY}SEND_TIMEOUT", "11m", "must not be longer than 10m"),
    (
        f"{KAFKA}BOOTSTRAP_SERVERS",
        "kafka://a:9092",
        "must be host:port, or several of them with commas between",
    ),
    (f"{KAFKA}BOOTSTRAP_SERVERS", "a:1,", "must be host:port, or several of them with commas between"),
    (f"{KAFKA}SECURITY_PROTOCOL", "TLS", "must be PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"),
    (f"{KAFKA}SASL_MECHANISM", "GSSAPI", "must be PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"),
    (f"{KAFKA}SSL_CAFILE", "/nowhere/ca.pem", "must be the path of a file that is there"),
]
ANYTHING_GOES = {
    *("MESSENGER_S3_ACCESS_KEY", "MESSENGER_S3_SECRET_KEY", "MESSENGER_S3_REGION"),
    *(f"{KAFKA}SASL_USERNAME", f"{KAFKA}SASL_PASSWORD"),
}


@pytest.mark.parametrize(("name", "text", "problem"), WRONG)
def test_every_wrong_value_is_named_with_its_problem(name: str, text: str, problem: str) -> None:
    assert problems(REQUIRED | {name: text}) == {name: problem}


def test_both_tables_above_know_every_setting() -> None:
    groups: dict[str, type[attrs.AttrsInstance]] = {
        "chat_provision_retry": ChatProvisionRetryOptions,
        "recording_finalize_retry": RecordingFinalizeRetryOptions,
        "outbox_relay": OutboxRelayOptions,
    }
    every = {
        variable(name)
        for name in attrs.fields_dict(cast("type[attrs.AttrsInstance]", Settings))
        if name not in groups
    }
    every |= {
        variable(group, name) for group, options in groups.items() for name in attrs.fields_dict(options)
    }

    assert {name for name, *_ in GOOD} == every
    assert {name for name, *_ in WRONG} == every - ANYTHING_GOES


@pytest.mark.parametrize("missing", ["SASL_MECHANISM", "SASL_USERNAME", "SASL_PASSWORD"])
def test_sasl_needs_all_that_belongs_to_it(missing: str) -> None:
    variables = {name: text for name, text in SASL.items() if name != KAFKA + missing}

    assert problems(REQUIRED | variables) == {
        f"{KAFKA}{missing}": f"is not set; {KAFKA}SECURITY_PROTOCOL SASL_SSL needs it"
    }


def test_credentials_that_would_not_be_used_are_told() -> None:
    variables = SASL | {f"{KAFKA}SECURITY_PROTOCOL": "PLAINTEXT", f"{KAFKA}SSL_CAFILE": __file__}

    assert problems(REQUIRED | variables).keys() == variables.keys() - {f"{KAFKA}SECURITY_PROTOCOL"}


def test_sasl_password_does_not_show_itself() -> None:
    assert "s3cr3t-word" not in repr(load_settings(REQUIRED | SASL))


def test_recordings_need_to_know_their_storage() -> None:
    needed = "is not set; MESSENGER_RECORDINGS_ENABLED needs it"

    assert problems(REQUIRED | {"MESSENGER_RECORDINGS_ENABLED": "true"}) == {
        "MESSENGER_S3_ENDPOINT": needed,
        "MESSENGER_S3_ACCESS_KEY": needed,
        "MESSENGER_S3_SECRET_KEY": needed,
        "MESSENGER_S3_BUCKET_CALL_RECORDINGS": needed,
    }


def test_keys_of_the_storage_do_not_show_themselves() -> None:
    settings = load_settings(
        REQUIRED | {"MESSENGER_S3_ACCESS_KEY": "acc3ss-key", "MESSENGER_S3_SECRET_KEY": "s3cr3t-key"}
    )

    assert "acc3ss-key" not in repr(settings)
    assert "s3cr3t-key" not in repr(settings)


def test_everything_wrong_is_told_at_once() -> None:
    wrong = {
        "MESSENGER_LOG_LEVEL": "loud",
        f"{CHAT}BATCH_SIZE": "ten",
        f"{CHAT}CONCURRENCY": "0",
        f"{CHAT}LOCK_TTL": "1m",
    }

    assert problems(wrong).keys() == {"MESSENGER_DATABASE_URL", *wrong}


def test_a_value_is_not_compared_with_one_that_cannot_be_read() -> None:
    wrong = REQUIRED | {f"{CHAT}LOCK_TTL": "2m", f"{CHAT}MAX_RUN_DURATION": "short"}

    assert problems(wrong) == {f"{CHAT}MAX_RUN_DURATION": A_DURATION}


def test_text_around_a_value_does_not_matter() -> None:
    assert load_settings(REQUIRED | {"MESSENGER_HTTP_PORT": " 9100\n"}).http_port == 9100


def test_secrets_do_not_show_themselves() -> None:
    settings = load_settings(REQUIRED | {"MESSENGER_LOCK_DATABASE_URL": URL})

    assert "s3cr3t-word" not in repr(settings)
    assert "s3cr3t-word" not in str(settings)


SETTING_NAMES = st.sampled_from(
    [
        "MESSENGER_DATABASE_URL",
        "MESSENGER_LOG_LEVEL",
        "MESSENGER_HTTP_PORT",
        f"{CHAT}LOCK_TTL",
        f"{CHAT}BATCH_SIZE",
    ]
)


@given(
    st.dictionaries(SETTING_NAMES, st.text(max_size=10).map(lambda text: f"s3cr3t-word%{text}"), min_size=1)
)
def test_no_report_quotes_a_value(variables: dict[str, str]) -> None:
    with pytest.raises(InvalidSettings) as report:
        load_settings(variables)

    assert "s3cr3t-word" not in str(report.value)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "messenger.env"


def test_file_gives_settings_and_the_environment_wins(file: Path) -> None:
    file.write_text(
        f"# the database\nexport MESSENGER_DATABASE_URL='{URL}'\n\n"
        "MESSENGER_HTTP_PORT=1\nMESSENGER_LOG_LEVEL=error # or less\n"
    )

    settings = load_settings({"MESSENGER_HTTP_PORT": "2"}, file)

    assert (settings.database_url, settings.http_port, settings.log_level) == (URL, 2, "error")


def test_empty_variable_does_not_hide_the_file(file: Path) -> None:
    file.write_text("MESSENGER_HTTP_PORT=1")

    assert load_settings(REQUIRED | {"MESSENGER_HTTP_PORT": ""}, file).http_port == 1


def test_file_is_taken_literally(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("word", "not this")
    file.write_text("MESSENGER_DATABASE_URL=postgresql://u:pa$word${word}@h/d")

    assert load_settings({}, file).database_url == "postgresql://u:pa$word${word}@h/d"


def test_missing_file_is_named(file: Path) -> None:
    assert problems({}, file) == {"--config": f"cannot read {file}: No such file or directory"}


def test_file_that_is_not_text_is_named(file: Path) -> None:
    file.write_bytes(b"\xff\xfe\x00")

    assert problems({}, file) == {"--config": f"cannot read {file}: it is not UTF-8 text"}


def test_line_that_makes_no_sense_is_named_by_its_number_only(file: Path) -> None:
    file.write_text("MESSENGER_HTTP_PORT=1\n\n\ns3cr3t-word and more\n")

    assert problems({}, file) == {"--config": f"cannot read {file}: line 4 is not NAME=value"}


def test_likely_typos_are_found_in_both_places(file: Path) -> None:
    file.write_text("MESSENGER_DATBASE_URL=x\nMESSENGER_HTTP_PORT=1")

    assert likely_typos({f"{CHAT}MAX_ATTEMTPS": "3", "PATH": "/"}, file) == {
        "MESSENGER_DATBASE_URL": "MESSENGER_DATABASE_URL",
        f"{CHAT}MAX_ATTEMTPS": f"{CHAT}MAX_ATTEMPTS",
    }


@pytest.mark.parametrize(
    "name",
    [
        "MESSENGER_SERVICE_HOST",  # what Kubernetes sets for a service of this name
        "MESSENGER_PORT_80_TCP",
        "MESSENGER_TEST_DATABASE_URL",
        "MESSENGER_S3_BUCKET_CALL_RECORDINGS",
        "CHAT_PROVISION_RETRY_BATCH_SIZE",
    ],
)
def test_names_of_others_are_no_typos(name: str) -> None:
    assert likely_typos({name: "x"}) == {}
