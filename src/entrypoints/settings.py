"""Settings from environment variables and a file, all validated at once."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Final, TypeVar, cast

import attrs
import environ
from dotenv.parser import parse_stream
from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

from ..adapters.kafka.security import SaslMechanism, SecurityProtocol
from ..adapters.telemetry.logging import LogFormat, LogLevel
from ..application.options import (
    ChatProvisionRetryOptions,
    InvalidOptions,
    JobOptions,
    OutboxRelayOptions,
    RecordingFinalizeRetryOptions,
)
from .durations import parse_duration

PREFIX: Final = "MESSENGER"

T = TypeVar("T")
Options = TypeVar("Options", bound=JobOptions | OutboxRelayOptions)


class InvalidSettings(Exception):
    """Every setting at fault with its value's problem; values are never quoted, for some are secrets."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{name} {problem}" for name, problem in problems.items()))
        self.problems = problems


class Secret(str):
    """Text that does not show itself when an object around it is printed."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<secret>"


@attrs.frozen
class _Wrong:
    """Stands in for a value that could not be read, until all of them are known."""

    problem: str


def setting(parse: Callable[[str], T], *, default: T | _Wrong) -> T:
    """Declare a setting whose text `parse` reads, or refuses with a `ValueError` that says what is expected.

    Empty text is the same as no text: the default.
    """

    def convert(value: object) -> object:
        if not isinstance(value, str):
            return value
        text = value.strip()
        if not text:
            return default
        try:
            return parse(text)
        except ValueError as error:
            return _Wrong(str(error))

    declared = environ.var(default=default, converter=convert)  # pyright: ignore[reportUnknownMemberType]
    return cast("T", declared)


def job_options(options: type[Options]) -> Options:
    """Declare a group of settings: one for every option of a job, with the option's default."""
    fields = attrs.fields_dict(attrs.resolve_types(options))
    settings = {
        name: setting(_PARSERS[cast("type", field.type)], default=field.default)
        for name, field in fields.items()
    }
    plain: type[object] = type(options.__name__, (), {"options_class": options, **settings})
    return cast("Options", environ.group(environ.config(frozen=True)(plain)))


def _whole_number(text: str) -> int:
    if not re.fullmatch(r"-?[0-9]{1,12}", text):
        raise ValueError("must be a whole number")
    return int(text)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError("must be a number") from None


def _port(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", text) or int(text) > 65_535:
        raise ValueError("must be a port between 1 and 65535, or 0 for none")
    return int(text)


def _log_format(text: str) -> LogFormat:
    match text.lower():
        case "json" | "console" as known:
            return known
        case _:
            raise ValueError("must be json or console")


def _log_level(text: str) -> LogLevel:
    match text.lower():
        case "debug" | "info" | "warning" | "error" as known:
            return known
        case _:
            raise ValueError("must be debug, info, warning or error")


def _database_url(text: str) -> Secret:
    try:
        usable = text.startswith(("postgresql://", "postgres://")) and bool(conninfo_to_dict(text))
    except (ProgrammingError, UnicodeError):  # whose messages quote the URL
        usable = False
    if not usable:
        raise ValueError("must be a URL such as postgresql://user:password@host:5432/database")
    return Secret(text)


def _yes_or_no(text: str) -> bool:
    match text.lower():
        case "true" | "yes" | "on" | "1":
            return True
        case "false" | "no" | "off" | "0":
            return False
        case _:
            raise ValueError("must be true or false")


def _endpoint(text: str) -> str:
    if not re.fullmatch(r"([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?", text):
        raise ValueError(f"must be host or host:port; {PREFIX}_S3_SECURE says whether it speaks TLS")
    return text


def _bucket(text: str) -> str:
    if not re.fullmatch(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", text):
        raise ValueError("must be a bucket's name: 3 to 63 lower-case letters, digits, dots and hyphens")
    return text


def _bootstrap_servers(text: str) -> str:
    servers = [server.strip() for server in text.split(",")]
    address = re.compile(r"([A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}")
    if not all(address.fullmatch(server) for server in servers):
        raise ValueError("must be host:port, or several of them with commas between")
    return ",".join(servers)


def _security_protocol(text: str) -> SecurityProtocol:
    match text.upper():
        case "PLAINTEXT" | "SSL" | "SASL_PLAINTEXT" | "SASL_SSL" as known:
            return known
        case _:
            raise ValueError("must be PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL")


def _sasl_mechanism(text: str) -> SaslMechanism:
    match text.upper():
        case "PLAIN" | "SCRAM-SHA-256" | "SCRAM-SHA-512" as known:
            return known
        case _:
            raise ValueError("must be PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512")


def _file(text: str) -> Path:
    try:
        is_file = Path(text).is_file()
    except OSError:  # a name that is too long, a folder that may not be entered
        is_file = False
    if not is_file:
        raise ValueError("must be the path of a file that is there")
    return Path(text)


_PARSERS: Final[Mapping[type, Callable[[str], object]]] = {
    timedelta: parse_duration,
    int: _whole_number,
    float: _number,
}


@environ.config(prefix=PREFIX, frozen=True)
class Settings:
    """Everything an operator can set; the variable of a field is its path in capitals behind ``MESSENGER_``."""

    database_url: Secret = setting(_database_url, default=_Wrong("is not set"))
    lock_database_url: Secret | None = setting(_database_url, default=None)
    http_port: int = setting(_port, default=0)
    log_format: LogFormat | None = setting(_log_format, default=None)
    log_level: LogLevel = setting(_log_level, default="info")
    shutdown_grace: timedelta = setting(parse_duration, default=timedelta(seconds=30))
    recordings_enabled: bool = setting(_yes_or_no, default=False)
    s3_endpoint: str | None = setting(_endpoint, default=None)
    s3_access_key: Secret | None = setting(Secret, default=None)
    s3_secret_key: Secret | None = setting(Secret, default=None)
    s3_region: str = setting(str, default="us-east-1")
    s3_secure: bool = setting(_yes_or_no, default=True)
    s3_bucket_call_recordings: str | None = setting(_bucket, default=None)
    kafka_bootstrap_servers: str | None = setting(_bootstrap_servers, default=None)
    kafka_security_protocol: SecurityProtocol = setting(_security_protocol, default="PLAINTEXT")
    kafka_sasl_mechanism: SaslMechanism | None = setting(_sasl_mechanism, default=None)
    kafka_sasl_username: str | None = setting(str, default=None)
    kafka_sasl_password: Secret | None = setting(Secret, default=None)
    kafka_ssl_cafile: Path | None = setting(_file, default=None)
    chat_provision_retry: ChatProvisionRetryOptions = job_options(ChatProvisionRetryOptions)
    recording_finalize_retry: RecordingFinalizeRetryOptions = job_options(RecordingFinalizeRetryOptions)
    outbox_relay: OutboxRelayOptions = job_options(OutboxRelayOptions)

    @property
    def lock_url(self) -> Secret:
        """Where the run locks are."""
        return self.lock_database_url or self.database_url


_NEEDED_FOR_RECORDINGS: Final = (
    "s3_endpoint",
    "s3_access_key",
    "s3_secret_key",
    "s3_bucket_call_recordings",
)


def load_settings(variables: Mapping[str, str], config_file: Path | None = None) -> Settings:
    """Read all settings; a variable of the environment that is not empty wins over the same name in the file.

    Raises `InvalidSettings` naming everything that is wrong.
    """
    in_file = {} if config_file is None else _read(config_file)
    given = {name: text for name, text in variables.items() if text.strip()}
    raw = environ.to_config(Settings, {**in_file, **given})
    problems: dict[str, str] = {}
    values: dict[str, object] = {}
    for field in attrs.fields(cast("type[attrs.AttrsInstance]", Settings)):
        value = getattr(raw, field.name)
        if isinstance(value, _Wrong):
            problems[variable(field.name)] = value.problem
        values[field.name] = (
            _options(field.name, value, problems) if hasattr(value, "options_class") else value
        )
    if values["recordings_enabled"] is True:
        for name in _NEEDED_FOR_RECORDINGS:
            if values[name] is None:
                problems[variable(name)] = f"is not set; {variable('recordings_enabled')} needs it"
    problems |= _wrong_together(values, problems)
    if problems:
        raise InvalidSettings(problems)
    return cast("Callable[..., Settings]", Settings)(**values)


def _wrong_together(values: Mapping[str, object], known: Mapping[str, str]) -> dict[str, str]:
    """Kafka settings that do not go together; silent about those that are wrong by themselves."""
    protocol = variable("kafka_security_protocol")
    if protocol in known:
        return {}
    chosen = str(values["kafka_security_protocol"])
    problems: dict[str, str] = {}
    for name in ("kafka_sasl_mechanism", "kafka_sasl_username", "kafka_sasl_password"):
        if chosen.startswith("SASL_") and values[name] is None:
            problems[variable(name)] = f"is not set; {protocol} {chosen} needs it"
        elif not chosen.startswith("SASL_") and values[name] is not None:
            problems[variable(name)] = f"goes with a {protocol} of SASL_PLAINTEXT or SASL_SSL"
    if not chosen.endswith("SSL") and values["kafka_ssl_cafile"] is not None:
        problems[variable("kafka_ssl_cafile")] = f"goes with a {protocol} of SSL or SASL_SSL"
    return {name: problem for name, problem in problems.items() if name not in known}


def likely_typos(variables: Mapping[str, str], config_file: Path | None = None) -> dict[str, str]:
    """Names that are no setting but look very much like one, with the one that was probably meant."""
    known = list(_variables())
    given = {*variables, *({} if config_file is None else _read(config_file))}
    unknown = sorted(name for name in given if name.startswith(f"{PREFIX}_") and name not in known)
    guesses = {name: difflib.get_close_matches(name, known, n=1, cutoff=0.9) for name in unknown}
    return {name: guess[0] for name, guess in guesses.items() if guess}


def variable(*path: str) -> str:
    """The environment variable of a setting, for example of ``("chat_provision_retry", "lock_ttl")``."""
    return "_".join((PREFIX, *path)).upper()


def _variables() -> list[str]:
    def names(settings: list[dict[str, str]]) -> str:
        return "\n".join(setting["var_name"] for setting in settings)

    listed = environ.generate_help(Settings, formatter=names)  # pyright: ignore[reportUnknownMemberType]
    return listed.splitlines()


def _read(file: Path) -> dict[str, str]:
    """The file's names and values, taken literally. Raises `InvalidSettings` naming a line that makes no sense."""
    try:
        with file.open(encoding="utf-8") as stream:
            bindings = list(parse_stream(stream))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InvalidSettings({"--config": f"cannot read {file}: {reason}"}) from None
    for binding in bindings:
        if binding.error:
            text = binding.original.string
            empty_lines = text[: len(text) - len(text.lstrip())].count("\n")
            line = binding.original.line + empty_lines
            raise InvalidSettings({"--config": f"cannot read {file}: line {line} is not NAME=value"})
    return {binding.key: binding.value or "" for binding in bindings if binding.key is not None}


def _options(group: str, raw: object, problems: dict[str, str]) -> JobOptions | OutboxRelayOptions | None:
    """The options of a job; adds what is wrong with them to ``problems``."""
    values = {
        field.name: getattr(raw, field.name)
        for field in attrs.fields(cast("type[attrs.AttrsInstance]", type(raw)))
    }
    wrong = {name: value.problem for name, value in values.items() if isinstance(value, _Wrong)}
    problems.update({variable(group, name): problem for name, problem in wrong.items()})
    options_class = cast("type[JobOptions | OutboxRelayOptions]", getattr(raw, "options_class"))  # noqa: B009
    try:
        return options_class(**{name: value for name, value in values.items() if name not in wrong})
    except InvalidOptions as invalid:
        option = re.compile(rf"\b({'|'.join(values)})\b")
        for name, problem in invalid.problems:
            # What compares with a value that could not be read says nothing.
            if wrong.keys().isdisjoint({name, *option.findall(problem)}):
                spelled_out = option.sub(lambda match: variable(group, match[0]), problem)
                problems[variable(group, name)] = spelled_out
        return None
