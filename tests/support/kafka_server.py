"""A real Apache Kafka of one broker (KRaft), on this machine only, that ends when this process ends."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from typing import Final, Self

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from tests.support.kafka_admin import answers, create_topic, permit_describing, permit_writing
from tests.support.kafka_programs import KafkaPrograms
from tests.support.seaweed_server import HOST, free_ports

USER: Final = "messenger"
PASSWORD: Final = "correct-password"
"""Of the only user with a password, who may do nothing without permission; whoever has no name may do everything."""

_LISTENERS: Final[tuple[str, ...]] = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL", "CONTROLLER")
_START: Final = 60.0  # seconds
_STOP: Final = 60.0
_POLL: Final = 0.01
_CLUSTER_ID: Final = "4L6g3nShT-eMCtK--X86sw"

_SETTINGS: Final = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "auto.create.topics.enable": "false",
    # One broker is every replica there can be.
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # Sooner done.
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    # A killed one that starts again waits until its former self is taken for dead.
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "ssl.keystore.type": "PEM",
}
_SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
_PLAIN: Final = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'

# At end of file on its standard input, which is our end, it kills the server.
_SUPERVISOR: Final = """
exec 3<&0 </dev/null
"$@" 3<&- >"$LOG" 2>&1 &
server=$!
echo "$server"
exec >/dev/null 2>&1
{ cat <&3; kill -s KILL "$server"; } &
wait "$server"
kill "$!"
"""


@cache
def certificate_authority() -> trustme.CA:
    """Who signed the certificates of these servers."""
    return trustme.CA()


class KafkaServer:
    """One broker in one folder; stopped, killed and started again it keeps its data and its addresses.

    `template` is a folder made by `format_storage`. Everybody may come by ``PLAINTEXT`` and ``SSL`` without a name, and
    then may do everything; `USER` comes by ``SASL_PLAINTEXT`` and ``SASL_SSL``. ``settings`` count from the next start.
    """

    real = True

    def __init__(
        self,
        folder: Path,
        programs: KafkaPrograms,
        template: Path,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._folder = folder
        self._programs = programs
        self._template = template
        self.settings = dict(settings or {})
        self._ports: dict[str, int] = dict(zip(_LISTENERS, free_ports(len(_LISTENERS)), strict=True))
        self._supervisor: subprocess.Popen[str] | None = None
        self.pid = 0

    @property
    def label(self) -> str:
        return self._programs.label

    @property
    def bootstrap_servers(self) -> str:
        return self.address("PLAINTEXT")

    def address(self, security_protocol: str) -> str:
        """Where clients of this protocol connect."""
        return f"{HOST}:{self._ports[security_protocol]}"

    @cached_property
    def ca_file(self) -> Path:
        """What a client must trust to come by ``SSL`` or ``SASL_SSL``."""
        path = self._folder / "ca.pem"
        certificate_authority().cert_pem.write_to_path(path)
        return path

    def topic(
        self, partitions: int = 1, settings: Mapping[str, str] | None = None, *, name: str | None = None
    ) -> str:
        """The name of a new topic."""
        return create_topic(self.bootstrap_servers, partitions, settings, name)

    def permit_writing(self, topic: str) -> None:
        """Let `USER` write to this topic; whatever is not permitted to him is refused."""
        permit_writing(self.bootstrap_servers, topic, f"User:{USER}")

    def permit_describing(self, topic: str) -> None:
        """Let `USER` see this topic, and no more."""
        permit_describing(self.bootstrap_servers, topic, f"User:{USER}")

    @property
    def running(self) -> bool:
        return self._supervisor is not None and self._supervisor.poll() is None

    def start(self) -> None:
        """Returns when it serves its clients; does nothing when it runs."""
        if self.running:
            return
        self._reap()
        if not self._data.exists():
            shutil.copytree(self._template, self._data)
        self._write_settings()
        self._supervisor = subprocess.Popen(
            ["sh", "-c", _SUPERVISOR, "sh", *self._command()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "LOG": str(self._log)},
            text=True,
            start_new_session=True,  # the terminal's interrupt is for us, not for the server
        )
        assert self._supervisor.stdout is not None
        self.pid = int(self._supervisor.stdout.readline())
        try:
            self._wait_until_ready(time.monotonic() + _START)
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """An orderly shutdown, to its end."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self._end(signal.SIGKILL)

    def freeze(self) -> None:
        """Let it do nothing more, while its connections stay open and new ones are still accepted by the system."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen one go on."""
        self._signal(signal.SIGCONT)

    def lose_state(self) -> None:
        """Forget every topic and message, as with a new disk; only while it does not run."""
        assert not self.running, "a running server cannot lose its state"
        shutil.rmtree(self._data, ignore_errors=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def log(self) -> str:
        """What it has said since its start."""
        return self._log.read_text(errors="replace")

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    @property
    def _log(self) -> Path:
        return self._folder / "server.log"

    def _command(self) -> list[str]:
        return self._programs.command("kafka.Kafka", str(self._folder / "server.properties"))

    def _write_settings(self) -> None:
        certificate = self._folder / "server.pem"
        certificate.write_text(_server_certificate())
        controller = self.address("CONTROLLER")
        clients = [name for name in _LISTENERS if name != "CONTROLLER"]
        ours = {
            **_SETTINGS,
            "log.dirs": str(self._data),
            "controller.quorum.voters": f"1@{controller}",
            "listeners": ",".join(f"{name}://{self.address(name)}" for name in _LISTENERS),
            "advertised.listeners": ",".join(f"{name}://{self.address(name)}" for name in clients),
            "listener.security.protocol.map": ",".join(
                ["CONTROLLER:PLAINTEXT", *(f"{name}:{name}" for name in clients)]
            ),
            "ssl.keystore.location": str(certificate),
            **_login_modules(),
            **self.settings,
        }
        text = "".join(f"{name}={value}\n" for name, value in ours.items())
        (self._folder / "server.properties").write_text(text)

    def _wait_until_ready(self, deadline: float) -> None:
        while not self._answers():
            assert self.running, self.log
            assert time.monotonic() < deadline, self.log
            time.sleep(_POLL)

    def _answers(self) -> bool:
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex((HOST, self._ports["PLAINTEXT"])) != 0:
                return False  # sooner known than by a client
        return answers(self.bootstrap_servers)

    def _signal(self, number: signal.Signals) -> None:
        assert self.running, "the server does not run"
        os.kill(self.pid, number)

    def _end(self, number: signal.Signals) -> None:
        if self.running:
            with suppress(ProcessLookupError):  # it was quicker
                os.kill(self.pid, number)
                os.kill(self.pid, signal.SIGCONT)  # a frozen one hears nothing but SIGKILL
        self._reap()

    def _reap(self) -> None:
        if self._supervisor is not None:
            self._supervisor.wait(_STOP)
            assert self._supervisor.stdin is not None
            assert self._supervisor.stdout is not None
            self._supervisor.stdin.close()
            self._supervisor.stdout.close()
            self._supervisor = None


def format_storage(programs: KafkaPrograms, folder: Path) -> Path:
    """A folder as a server has it before its first start, with `USER` in it."""
    data = folder / "data"
    settings = {**_SETTINGS, "log.dirs": str(data), "controller.quorum.voters": f"1@{HOST}:1"}
    settings |= {"listeners": f"PLAINTEXT://{HOST}:2,CONTROLLER://{HOST}:1"}
    path = folder / "format.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    users = [
        f"--add-scram={mechanism}=[name={USER},password={PASSWORD}]"
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
    ]
    formatted = subprocess.run(
        programs.command(
            "kafka.tools.StorageTool", "format", "--config", str(path), "--cluster-id", _CLUSTER_ID, *users
        ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_START,
        check=False,
    )
    assert formatted.returncode == 0, formatted.stderr
    return data


def _login_modules() -> dict[str, str]:
    modules = {"plain": _PLAIN, "scram-sha-256": _SCRAM, "scram-sha-512": _SCRAM}
    return {
        f"listener.name.{listener}.{mechanism}.sasl.jaas.config": module
        for listener in ("sasl_plaintext", "sasl_ssl")
        for mechanism, module in modules.items()
    }


@cache
def _server_certificate() -> str:
    issued = certificate_authority().issue_cert(HOST)
    # Java reads no other form of a private key.
    key = load_pem_private_key(issued.private_key_pem.bytes(), password=None).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    return "".join(part.decode() for part in (key, *(blob.bytes() for blob in issued.cert_chain_pems)))
