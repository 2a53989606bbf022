"""What is told of a storage that recordings cannot be looked up in: a real S3, and servers that do what none does."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

import pytest
import trustme
from messenger_jobs.adapters.s3 import errors
from messenger_jobs.adapters.s3.check import SENTENCES, StorageCheck
from messenger_jobs.adapters.s3.recording_storage import S3RecordingStorage
from messenger_jobs.application.ports.check import CheckedItem, Verdict

from tests.support.http_servers import HOST, Behaviour, answer, answering, http_server, s3_refusal, silent
from tests.support.s3_servers import Bucket, owned
from tests.support.seaweed_server import STRANGER, SeaweedServer

ACCESS: Final[Mapping[str, Any]] = {
    "access_key": "acc3ss-key",
    "secret_key": "s3cr3t-key",
    "region": "us-east-1",
    "bucket": "recordings",
    "secure": False,
}


async def checked(**access: Any) -> CheckedItem:
    async with S3RecordingStorage(**{**ACCESS, **access}) as storage:
        (item,) = await StorageCheck(storage)()
    assert item.item == "storage"
    assert "s3cr3t" not in item.sentence
    assert str(access["endpoint"]) not in item.sentence
    return item


async def checked_on(behaviour: Behaviour, **access: Any) -> CheckedItem:
    async with http_server(behaviour) as server:
        return await checked(endpoint=server.endpoint, **access)


def assert_failed(item: CheckedItem, code: str, *, setting: str = "") -> None:
    assert (item.verdict, item.code) == (Verdict.FAILED, code)
    assert item.sentence == f"{SENTENCES[code]} ({code})"
    assert item.sentence.startswith(setting)


async def test_bucket_that_recordings_can_be_looked_up_in_passes(module_bucket: Bucket) -> None:
    item = await checked(**module_bucket.access())

    assert (item.verdict, item.code) == (Verdict.OK, None)


async def test_looking_leaves_nothing_in_the_bucket(bucket: Bucket) -> None:
    await checked(**bucket.access())

    assert [*bucket.client.list_objects(bucket.name, recursive=True)] == []


@pytest.mark.parametrize(
    ("different", "code", "setting"),
    [
        (
            {"bucket": "nobody-made-this"},
            "NO_SUCH_BUCKET",
            "MESSENGER_S3_BUCKET_CALL_RECORDINGS",
        ),
        ({"secret_key": "s3cr3t-of-another"}, "WRONG_SECRET_KEY", "MESSENGER_S3_SECRET_KEY"),
        ({"access_key": "nobody"}, "UNKNOWN_ACCESS_KEY", "MESSENGER_S3_ACCESS_KEY"),
    ],
    ids=["bucket", "secret key", "access key"],
)
async def test_what_is_wrong_is_named_by_its_setting(
    module_bucket: Bucket, different: dict[str, str], code: str, setting: str
) -> None:
    assert_failed(await checked(**module_bucket.access(**different)), code, setting=setting)


async def test_missing_permission_is_told(seaweed_server: SeaweedServer) -> None:
    access_key, secret_key = STRANGER
    with owned(seaweed_server).new_bucket() as bucket:
        item = await checked(**bucket.access(access_key=access_key, secret_key=secret_key))

    assert_failed(item, "ACCESS_DENIED")


async def test_another_region_is_told() -> None:
    item = await checked_on(answering(s3_refusal(400, "AuthorizationHeaderMalformed")))

    assert_failed(item, "WRONG_REGION", setting="MESSENGER_S3_REGION")


async def test_refused_connection_is_told() -> None:
    with socket.socket() as taken:  # bound and not listening
        taken.bind((HOST, 0))

        item = await checked(endpoint=f"{HOST}:{taken.getsockname()[1]}")

    assert_failed(item, "CONNECTION_REFUSED", setting="MESSENGER_S3_ENDPOINT")


async def test_name_of_no_host_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", nobody)

    item = await checked(endpoint="storage.example")

    assert_failed(item, "NO_SUCH_HOST", setting="MESSENGER_S3_ENDPOINT")


async def test_server_without_tls_is_told() -> None:
    async def speak_plainly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(answer(400, b"this is plain HTTP"))
        await reader.read()

    item = await checked_on(speak_plainly, secure=True)

    assert_failed(item, "TLS_FAILED", setting="MESSENGER_S3_SECURE")


async def test_certificate_that_nobody_vouches_for_is_told() -> None:
    authority = trustme.CA()
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(HOST).configure_cert(tls)
    async with http_server(silent, tls) as server:
        item = await checked(endpoint=server.endpoint, secure=True)

    assert_failed(item, "CERTIFICATE_REFUSED", setting="MESSENGER_S3_ENDPOINT")


async def test_silent_server_is_told_in_time() -> None:
    item = await checked_on(silent, read_timeout=timedelta(milliseconds=200))

    assert_failed(item, "READ_TIMED_OUT")


async def test_server_in_trouble_is_told_with_its_status() -> None:
    item = await checked_on(answering(s3_refusal(503, "ServiceUnavailable")))

    assert (item.verdict, item.code) == (Verdict.FAILED, "HTTP_503")
    assert item.sentence == "the storage answered with an error of its own (HTTP_503)"


def test_every_misconfiguration_has_a_sentence() -> None:
    codes = set(errors._MISCONFIGURED.values())
    assert codes <= SENTENCES.keys()
