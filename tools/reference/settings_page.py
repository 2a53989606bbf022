"""The settings, their defaults, and what they are for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Final, cast

import attrs
from messenger_jobs.entrypoints.settings import load_settings, variable

MEANINGS: Final[Mapping[str, str]] = {
    "database_url": "the database with the schema `messenger`",
    "lock_database_url": "a direct connection for the run locks, where the other one goes through a "
    "transaction pooler; default: the same",
    "http_port": "`/livez`, `/readyz` and `/metrics` of a worker; 0 for none",
    "log_format": "`json` or `console`; default: `console` on a terminal, else `json`",
    "log_level": "`debug`, `info`, `warning` or `error`",
    "shutdown_grace": "how long the rows in hand may take after SIGTERM",
    "recordings_enabled": "turns `recording-finalize-retry` on; then its storage must be set",
    "s3_endpoint": "`host` or `host:port` of any S3-compatible storage",
    "s3_access_key": "",
    "s3_secret_key": "",
    "s3_region": "",
    "s3_secure": "whether the endpoint speaks TLS",
    "s3_bucket_call_recordings": "the bucket behind the storage category `CALL_RECORDINGS`",
    "kafka_bootstrap_servers": "`host:port`, several with commas between",
    "kafka_security_protocol": "`PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`",
    "kafka_sasl_mechanism": "`PLAIN`, `SCRAM-SHA-256` or `SCRAM-SHA-512`; with SASL only",
    "kafka_sasl_username": "with SASL only",
    "kafka_sasl_password": "with SASL only",
    "kafka_ssl_cafile": "who signed the brokers' certificates, if not a public authority",
}

OPTIONS: Final[Mapping[str, str]] = {
    "polling_interval": "from the start of one cycle to the start of the next",
    "batch_size": "rows read at once",
    "max_attempts": "attempts before a row waits for an operator",
    "max_run_duration": "after it a cycle starts no further row",
    "lock_ttl": "after it a silent runner loses the run lock; must exceed the run's duration",
    "backoff_base": "delay after the first attempt",
    "backoff_factor": "growth of the delay with each attempt",
    "backoff_cap": "the longest delay",
    "backoff_jitter": "by how much of itself a delay is shortened at most",
    "concurrency": "rows written at once, and lookups in storage, while as many are made ready; "
    "1 is strictly in order",
    "stuck_provisioning_after": "without progress for so long, a `Provisioning` row counts as stuck",
    "finalize_sla_timeout": "so long after its session a recording without file counts as lost",
    "storage_timeout": "for one look at storage; must be shorter than the first delay",
    "retention": "how long published messages are kept",
    "send_timeout": "for one publishing",
}

_HEAD: Final = """\
# Settings

Environment variables, or the same names in the file of `--config`; a variable that is set wins over the file. All are
checked at start, and each wrong one is named; secrets are never printed. Durations are seconds, or `90s`, `5m`, `1h`,
`7d`.
"""

_LEAST: Final = {"MESSENGER_DATABASE_URL": "postgresql://localhost/messenger"}


def settings_page() -> str:
    """The page. Raises `KeyError` for a setting that nobody has told the meaning of."""
    settings = load_settings(_LEAST)
    groups = {name: value for name, value in _fields(settings) if attrs.has(type(value))}
    lines = [_HEAD, "## Everything", *_table(settings, (), MEANINGS)]
    for group, options in groups.items():
        lines += [f"\n## `{group.replace('_', '-')}`", *_table(options, (group,), OPTIONS)]
    return "\n".join(lines) + "\n"


def _table(values: object, path: tuple[str, ...], meanings: Mapping[str, str]) -> Iterator[str]:
    yield "\n| Setting | Default | |\n|---|---|---|"
    for name, value in _fields(values):
        if not attrs.has(type(value)):
            setting = variable(*path, name)
            default = "required" if setting in _LEAST else _written(value)
            yield f"| `{setting}` | {default} | {meanings[name]} |"


def _fields(values: object) -> Iterator[tuple[str, object]]:
    for field in attrs.fields(cast("type[attrs.AttrsInstance]", type(values))):
        yield field.name, getattr(values, field.name)


def _written(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return f"`{str(value).lower()}`"
        case timedelta():
            return f"`{_duration(value)}`"
        case _:
            return f"`{value}`"


def _duration(value: timedelta) -> str:
    for unit, letter in ((timedelta(days=1), "d"), (timedelta(hours=1), "h"), (timedelta(minutes=1), "m")):
        if value >= unit and value % unit == timedelta(0):
            return f"{value // unit}{letter}"
    return f"{value.total_seconds():g}s"
