"""What S3 storage says when something is wrong; on a real server, and on small ones that do what no real one does."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
import time
import wave
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from io import BytesIO
from typing import Any

import pytest
import trustme
from messenger_jobs.adapters.media.ranged_file import MOST_BLOCKS
from messenger_jobs.adapters.media.stored_object import BLOCK
from messenger_jobs.adapters.s3.recording_storage import S3RecordingStorage
from messenger_jobs.domain.evidence import (
    Empty,
    Found,
    Missing,
    RecordingFormat,
    StorageMisconfigured,
    Unreachable,
    Unsupported,
)

from tests.support.eventually import eventually
from tests.support.http_servers import (
    Behaviour,
    answer,
    answering,
    dripping,
    http_server,
    s3_refusal,
    serving,
    silent,
)
from tests.support.media_files import DURATION, media_file
from tests.support.s3_servers import Bucket, owned
from tests.support.seaweed_server import STRANGER, SeaweedServer
from tests.support.tcp_proxy import TcpProxy

KEY = "calls/recording.ogg"
OGG = media_file(RecordingFormat.OGG)

SHORT = timedelta(milliseconds=200)
LONG = timedelta(seconds=60)  # longer than any test may take

FIRST_BLOCK = answer(
    206,
    OGG.content,
    etag='"1"',
    content_type=OGG.content_type,
    content_range=f"bytes 0-{len(OGG.content) - 1}/{len(OGG.content)}",
)


def storage(**arguments: Any) -> S3RecordingStorage:
    """A storage that waits long for everything that the test does not name."""
    defaults = {
        "access_key": "access-key",
        "secret_key": "secret-key",
        "region": "us-east-1",
        "bucket": "recordings",
        "secure": False,
        "storage_timeout": LONG,
        "connect_timeout": LONG,
        "read_timeout": LONG,
    }
    return S3RecordingStorage(**{**defaults, **arguments})


@asynccontextmanager
async def storage_on(behaviour: Behaviour, **arguments: Any) -> AsyncGenerator[S3RecordingStorage]:
    async with http_server(behaviour) as server, storage(endpoint=server.endpoint, **arguments) as asked:
        yield asked


def threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("recording-storage")}


@pytest.fixture(autouse=True)
def no_thread_outlives_its_storage() -> Iterator[None]:
    yield
    for thread in threads():
        thread.join(5)
        assert not thread.is_alive()


class TestRealServer:
    @pytest.fixture(autouse=True)
    def one_recording(self, module_bucket: Bucket) -> None:
        module_bucket.put(KEY, OGG.content, OGG.content_type)

    async def test_missing_key_is_missing(self, module_bucket: Bucket) -> None:
        async with storage(**module_bucket.access()) as asked:
            assert await asked.look("calls/none.ogg") == Missing()

    async def test_missing_bucket_is_no_missing_key(self, module_bucket: Bucket) -> None:
        async with storage(**module_bucket.access(bucket="nobody-made-this")) as asked:
            assert await asked.look(KEY) == StorageMisconfigured(code="NO_SUCH_BUCKET")

    @pytest.mark.parametrize("key", [KEY, "calls/none.ogg"])
    async def test_wrong_secret_is_refused_whether_or_not_the_key_is_there(
        self, module_bucket: Bucket, key: str
    ) -> None:
        async with storage(**module_bucket.access(secret_key="not-this-one")) as asked:
            assert await asked.look(key) == StorageMisconfigured(code="WRONG_SECRET_KEY")

    @pytest.mark.parametrize("key", [KEY, "calls/none.ogg"])
    async def test_unknown_access_key_is_refused_whether_or_not_the_key_is_there(
        self, module_bucket: Bucket, key: str
    ) -> None:
        async with storage(**module_bucket.access(access_key="nobody")) as asked:
            assert await asked.look(key) == StorageMisconfigured(code="UNKNOWN_ACCESS_KEY")

    async def test_unfinished_upload_is_missing(self, module_bucket: Bucket) -> None:
        upload = module_bucket.client._create_multipart_upload(module_bucket.name, "calls/long.ogg", {})
        module_bucket.client._upload_part(
            module_bucket.name, "calls/long.ogg", OGG.content, None, upload, part_number=1
        )
        try:
            async with storage(**module_bucket.access()) as asked:
                assert await asked.look("calls/long.ogg") == Missing()
        finally:
            module_bucket.client._abort_multipart_upload(module_bucket.name, "calls/long.ogg", upload)

    async def test_recording_replaced_by_an_empty_object_is_empty(self, module_bucket: Bucket) -> None:
        async with storage(**module_bucket.access()) as asked:
            module_bucket.put("calls/emptied.ogg", OGG.content, OGG.content_type)
            assert isinstance(await asked.look("calls/emptied.ogg"), Found)
            module_bucket.put("calls/emptied.ogg", b"", OGG.content_type)
            assert await asked.look("calls/emptied.ogg") == Empty()

    async def test_header_far_from_the_start_is_found(self, module_bucket: Bucket) -> None:
        module_bucket.put("calls/long.mp4", header_at_the_end(1_000_000), "video/mp4")
        async with storage(**module_bucket.access()) as asked:
            evidence = await asked.look("calls/long.mp4")
            assert isinstance(evidence, Found)
            assert evidence.measured_duration == DURATION

    async def test_connection_is_used_again(self, module_bucket: Bucket) -> None:
        module_bucket.put("calls/empty.ogg", b"", OGG.content_type)
        async with (
            TcpProxy(*_address(module_bucket.server.endpoint)) as proxy,
            storage(**module_bucket.access(endpoint=f"{proxy.host}:{proxy.port}")) as asked,
        ):
            for key in (KEY, "calls/none.ogg", "calls/empty.ogg", KEY):
                assert not isinstance(await asked.look(key), Unreachable)
                assert proxy.connections == 1

    async def test_reset_while_an_answer_is_awaited_is_a_lost_connection(self, module_bucket: Bucket) -> None:
        async with (
            TcpProxy(*_address(module_bucket.server.endpoint)) as proxy,
            storage(**module_bucket.access(endpoint=f"{proxy.host}:{proxy.port}")) as asked,
        ):
            proxy.lose_answer(to=b"GET")
            assert await asked.look(KEY) == Unreachable(code="CONNECTION_LOST", connection_failed=False)
            assert isinstance(await asked.look(KEY), Found)


class TestPermissions:
    @pytest.mark.parametrize("key", [KEY, "calls/none.ogg"])
    async def test_without_permission_nothing_is_said_to_be_missing(
        self, seaweed_server: SeaweedServer, key: str
    ) -> None:
        access_key, secret_key = STRANGER
        with owned(seaweed_server).new_bucket() as bucket:
            bucket.put(KEY, OGG.content, OGG.content_type)
            async with storage(**bucket.access(access_key=access_key, secret_key=secret_key)) as asked:
                assert await asked.look(key) == StorageMisconfigured(code="ACCESS_DENIED")

    async def test_missing_key_in_a_bucket_that_may_not_be_asked_for_is_not_missing(self) -> None:
        refusals = answering(s3_refusal(404, "NoSuchKey"), answer(403))
        async with storage_on(refusals) as asked:
            assert await asked.look(KEY) == StorageMisconfigured(code="ACCESS_DENIED")

    async def test_missing_key_in_a_bucket_that_is_not_there_is_not_missing(self) -> None:
        refusals = answering(s3_refusal(404, "NoSuchKey"), answer(404))
        async with storage_on(refusals) as asked:
            assert await asked.look(KEY) == StorageMisconfigured(code="NO_SUCH_BUCKET")

    async def test_missing_key_is_not_missing_while_the_bucket_gives_no_answer(self) -> None:
        refusals = answering(s3_refusal(404, "NoSuchKey"), answer(503))
        async with storage_on(refusals) as asked:
            assert await asked.look(KEY) == Unreachable(code="HTTP_503", connection_failed=False)


class TestServerThatDies:
    async def test_killed_server_is_unreachable_and_found_again_when_it_is_back(
        self, own_s3_server: SeaweedServer
    ) -> None:
        with owned(own_s3_server).new_bucket() as bucket:
            bucket.put(KEY, OGG.content, OGG.content_type, {"duration-seconds": "3"})
            async with storage(**bucket.access()) as asked:
                before = await asked.look(KEY)
                assert isinstance(before, Found)
                own_s3_server.kill()
                for _ in range(3):
                    assert await asked.look(KEY) == Unreachable(
                        code="CONNECTION_REFUSED", connection_failed=True
                    )
                await asyncio.to_thread(own_s3_server.start)
                looking_for_its_data = Unreachable(code="HTTP_500", connection_failed=False)
                async with asyncio.timeout(20):
                    while (evidence := await asked.look(KEY)) == looking_for_its_data:
                        pass
                assert evidence == before


class TestNoConnection:
    async def test_refused_connection_is_told_at_once(self) -> None:
        with socket.socket() as nobody:
            nobody.bind(("127.0.0.1", 0))
            async with storage(endpoint=f"127.0.0.1:{nobody.getsockname()[1]}") as asked:
                began = time.monotonic()
                refused = Unreachable(code="CONNECTION_REFUSED", connection_failed=True)
                assert await asked.look(KEY) == refused
                assert time.monotonic() - began < 1, "somebody tried again"

    async def test_connection_that_does_not_come_about_ends_at_the_connect_timeout(self) -> None:
        with socket.socket() as full, socket.socket() as first, socket.socket() as second:
            full.bind(("127.0.0.1", 0))
            full.listen(0)  # one waits to be accepted, and further ones get no answer
            for waiting in (first, second):
                waiting.setblocking(False)
                waiting.connect_ex(full.getsockname())
            endpoint = f"127.0.0.1:{full.getsockname()[1]}"
            async with storage(endpoint=endpoint, connect_timeout=SHORT) as asked:
                assert await asked.look(KEY) == Unreachable(code="CONNECT_TIMED_OUT", connection_failed=True)

    async def test_name_that_nobody_has_is_a_mistake(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(socket, "getaddrinfo", _no_address(socket.EAI_NONAME))
        async with storage(endpoint="no-such-host.invalid:9000") as asked:
            assert await asked.look(KEY) == StorageMisconfigured(code="NO_SUCH_HOST")

    async def test_name_that_is_none_is_a_mistake(self) -> None:
        async with storage(endpoint=f"{'a' * 70}.example:9000") as asked:
            assert await asked.look(KEY) == StorageMisconfigured(code="NO_SUCH_HOST")

    async def test_name_server_out_of_order_is_an_outage(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(socket, "getaddrinfo", _no_address(socket.EAI_AGAIN))
        async with storage(endpoint="storage.example:9000") as asked:
            assert await asked.look(KEY) == Unreachable(code="NAME_NOT_RESOLVED", connection_failed=True)


class TestBadAnswers:
    @pytest.mark.parametrize("status", [500, 502, 503, 504, 429, 409, 408])
    @pytest.mark.parametrize("content_type", ["application/xml", "text/html"])
    async def test_answer_of_a_server_in_trouble_is_transient(self, status: int, content_type: str) -> None:
        body = b"<Error><Code>InternalError</Code></Error>"
        async with storage_on(answering(answer(status, body, content_type=content_type))) as asked:
            assert await asked.look(KEY) == Unreachable(code=f"HTTP_{status}", connection_failed=False)

    async def test_slow_down_is_transient(self) -> None:
        async with storage_on(answering(s3_refusal(503, "SlowDown"))) as asked:
            assert await asked.look(KEY) == Unreachable(code="SLOW_DOWN", connection_failed=False)

    @pytest.mark.parametrize(
        ("status", "said", "code"),
        [
            (400, "AuthorizationHeaderMalformed", "WRONG_REGION"),
            (301, "PermanentRedirect", "WRONG_REGION"),
            (307, "TemporaryRedirect", "WRONG_REGION"),
            (400, "ExpiredToken", "CREDENTIALS_EXPIRED"),
            (403, "RequestTimeTooSkewed", "CLOCK_SKEWED"),
            (403, "AllAccessDisabled", "ACCESS_DENIED"),
            (401, "Unauthorized", "ACCESS_DENIED"),
            (404, "SomethingElse", "NOT_AN_S3_ANSWER"),
        ],
    )
    async def test_refusal_that_only_a_person_can_end_is_a_mistake(
        self, status: int, said: str, code: str
    ) -> None:
        async with storage_on(answering(s3_refusal(status, said))) as asked:
            assert await asked.look(KEY) == StorageMisconfigured(code=code)

    async def test_redirection_is_not_followed(self) -> None:
        async with http_server(answering(FIRST_BLOCK)) as elsewhere:
            there = f"http://{elsewhere.endpoint}/recordings/{KEY}"
            async with storage_on(answering(answer(302, location=there))) as asked:
                assert isinstance(await asked.look(KEY), StorageMisconfigured)
            assert elsewhere.served == 0

    async def test_archived_recording_concerns_itself_alone(self) -> None:
        async with storage_on(answering(s3_refusal(403, "InvalidObjectState"))) as asked:
            assert await asked.look(KEY) == Unsupported(code="OBJECT_ARCHIVED")

    @pytest.mark.parametrize(
        "page",
        [
            answer(404, b"<html>no backend</html>", content_type="text/html"),
            answer(404),
            answer(200, b"<html>please log in</html>", content_type="text/html"),
            answer(200, b"OggS" * 50, content_type="audio/ogg"),
            answer(206, b"OggS", content_type="audio/ogg", etag="1"),
            answer(206, b"OggS", content_type="audio/ogg", etag="1", content_range="bytes 9-12/99"),
            answer(302, b"<html>this way</html>", content_type="text/html"),
        ],
    )
    async def test_another_server_at_this_address_says_nothing_about_recordings(self, page: bytes) -> None:
        async with storage_on(answering(page)) as asked:
            assert await asked.look(KEY) == StorageMisconfigured(code="NOT_AN_S3_ANSWER")

    @pytest.mark.parametrize("body", [b"<Error><Code>NoSuchKey", b"\xff\xfe", b"<!DOCTYPE x [", b"<a/>" * 2])
    async def test_refusal_that_cannot_be_read_is_transient(self, body: bytes) -> None:
        async with storage_on(answering(answer(500, body, content_type="application/xml"))) as asked:
            assert await asked.look(KEY) == Unreachable(code="UNREADABLE_ANSWER", connection_failed=False)

    async def test_conflict_when_the_bucket_is_asked_for_is_transient(self) -> None:
        refusals = answering(s3_refusal(404, "NoSuchKey"), answer(409))
        async with storage_on(refusals) as asked:
            assert await asked.look(KEY) == Unreachable(code="UNREADABLE_ANSWER", connection_failed=False)

    @pytest.mark.parametrize("noise", [b"", b"SSH-2.0-OpenSSH_9.2\r\n", FIRST_BLOCK[:-1], b"\0" * 100])
    async def test_answer_that_ends_in_its_middle_is_a_lost_connection(self, noise: bytes) -> None:
        async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(noise)

        async with storage_on(behave) as asked:
            assert await asked.look(KEY) == Unreachable(code="CONNECTION_LOST", connection_failed=False)

    async def test_server_that_knows_no_ranges_serves_for_what_is_in_the_first_block(self) -> None:
        whole = answer(200, OGG.content, etag="1", content_type=OGG.content_type)
        async with storage_on(answering(whole)) as asked:
            evidence = await asked.look(KEY)
            assert isinstance(evidence, Found)
            assert evidence.measured_duration == DURATION

    async def test_server_that_knows_no_ranges_is_not_read_to_its_end(self) -> None:
        start = header_at_the_end(1_000_000)
        whole = answer(200, start, etag="1", content_type="video/mp4", content_length="9000000000")

        async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(whole)
            await reader.read()

        async with storage_on(behave) as asked:
            assert await asked.look(KEY) == StorageMisconfigured(code="NOT_AN_S3_ANSWER")

    async def test_failure_while_the_header_is_looked_for_is_no_silent_header(self) -> None:
        """A recording without a duration would be adopted for good; one that could not be read is asked for again."""
        first = answer(
            206,
            header_at_the_end(50_000_000)[:BLOCK],
            etag="1",
            content_type="video/mp4",
            content_range=f"bytes 0-{BLOCK - 1}/60000000",
        )
        async with storage_on(answering(first, s3_refusal(503, "SlowDown"))) as asked:
            assert await asked.look(KEY) == Unreachable(code="SLOW_DOWN", connection_failed=False)


class TestLongRecordings:
    """No more than a few blocks of a recording are fetched, however long it is."""

    @pytest.mark.parametrize("format", RecordingFormat)
    async def test_few_blocks_are_enough(self, format: RecordingFormat) -> None:
        content = long_recording(format)
        asked_for: list[tuple[int, int]] = []
        async with storage_on(serving(content, media_file(format).content_type, asked_for)) as asked:
            evidence = await asked.look(KEY)
        assert isinstance(evidence, Found)
        assert evidence.measured_duration
        assert evidence.size_bytes > 2_000_000
        assert len(asked_for) <= 6
        assert sum(last + 1 - first for first, last in asked_for) <= 6 * BLOCK

    async def test_search_for_a_header_ends_with_the_budget(self) -> None:
        box = BLOCK.to_bytes(4) + b"free" + bytes(BLOCK - 8)
        endless = media_file(RecordingFormat.MP4).content[:28] + box * 100
        asked_for: list[tuple[int, int]] = []
        async with storage_on(serving(endless, "video/mp4", asked_for)) as asked:
            evidence = await asked.look(KEY)
        assert isinstance(evidence, Found)
        assert evidence.measured_duration is None
        assert len(asked_for) == MOST_BLOCKS


class TestTls:
    @pytest.fixture
    def authority(self) -> trustme.CA:
        return trustme.CA()

    @asynccontextmanager
    async def server(self, certificate: trustme.LeafCert, behaviour: Behaviour) -> AsyncGenerator[str]:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        certificate.configure_cert(context)
        async with http_server(behaviour, tls=context) as server:
            yield server.endpoint

    async def test_trusted_certificate_is_accepted(self, authority: trustme.CA) -> None:
        async with self.server(authority.issue_cert("127.0.0.1"), answering(FIRST_BLOCK)) as endpoint:
            with authority.cert_pem.tempfile() as ca_file:
                async with storage(endpoint=endpoint, secure=True, ca_file=ca_file) as asked:
                    assert isinstance(await asked.look(KEY), Found)

    async def test_untrusted_certificate_is_refused(self, authority: trustme.CA) -> None:
        async with (
            self.server(authority.issue_cert("127.0.0.1"), answering(FIRST_BLOCK)) as endpoint,
            storage(endpoint=endpoint, secure=True) as asked,
        ):
            assert await asked.look(KEY) == StorageMisconfigured(code="CERTIFICATE_REFUSED")

    async def test_certificate_of_another_host_is_refused(self, authority: trustme.CA) -> None:
        async with self.server(authority.issue_cert("storage.example"), answering(FIRST_BLOCK)) as endpoint:
            with authority.cert_pem.tempfile() as ca_file:
                async with storage(endpoint=endpoint, secure=True, ca_file=ca_file) as asked:
                    assert await asked.look(KEY) == StorageMisconfigured(code="CERTIFICATE_REFUSED")

    async def test_server_without_tls_is_a_mistake(self) -> None:
        async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(1)
            writer.write(answer(400, b"this is plain HTTP"))
            await reader.read()

        async with storage_on(behave, secure=True) as asked:
            assert await asked.look(KEY) == StorageMisconfigured(code="TLS_FAILED")

    async def test_connection_that_ends_while_hands_are_shaken_is_lost(self) -> None:
        async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(1)

        async with storage_on(behave, secure=True) as asked:
            assert await asked.look(KEY) == Unreachable(code="CONNECTION_LOST", connection_failed=False)

    async def test_handshake_that_is_never_answered_ends_with_the_look(self) -> None:
        async with (
            http_server(silent) as server,
            storage(endpoint=server.endpoint, secure=True, storage_timeout=SHORT) as asked,
        ):
            assert await asked.look(KEY) == Unreachable(code="TIMED_OUT", connection_failed=False)
            await eventually(lambda: not server.connections, within=5)


class TestTimeouts:
    async def test_silent_server_ends_at_the_read_timeout(self) -> None:
        async with storage_on(silent, read_timeout=SHORT) as asked:
            assert await asked.look(KEY) == Unreachable(code="READ_TIMED_OUT", connection_failed=False)

    @pytest.mark.parametrize("dripped", [FIRST_BLOCK, s3_refusal(404, "NoSuchKey")])
    async def test_dripping_server_ends_with_the_look_and_so_does_its_thread(self, dripped: bytes) -> None:
        async with http_server(dripping(dripped, seconds=0.05)) as server:
            arguments = {"read_timeout": timedelta(seconds=2), "storage_timeout": SHORT}
            async with storage(endpoint=server.endpoint, **arguments) as asked:
                assert await asked.look(KEY) == Unreachable(code="TIMED_OUT", connection_failed=False)
                await eventually(lambda: not server.connections, within=1)

    async def test_look_that_waits_for_a_thread_is_bounded_too(self) -> None:
        async with storage_on(silent, threads=1, storage_timeout=SHORT) as asked:
            answers = await asyncio.gather(*(asked.look(KEY) for _ in range(5)))
            assert {type(answer) for answer in answers} == {Unreachable}
            assert {getattr(answer, "code", None) for answer in answers} == {"TIMED_OUT"}

    async def test_lookups_that_hang_do_not_keep_the_loop_from_its_work(self) -> None:
        """The server is served by the same loop: it sees them all only because none of them blocks it."""
        async with http_server(silent) as server, storage(endpoint=server.endpoint, threads=64) as asked:
            looking = [asyncio.create_task(asked.look(KEY)) for _ in range(64)]
            await eventually(lambda: len(server.connections) == 64)
            assert len(threads()) == 64
            for look in looking:
                look.cancel()
            assert {type(answer) for answer in await asyncio.gather(*looking, return_exceptions=True)} == {
                asyncio.CancelledError
            }
            await eventually(lambda: not server.connections, within=5)


class TestCancellation:
    async def test_cancelled_look_leaves_neither_connection_nor_thread_at_work(self) -> None:
        async with http_server(silent) as server, storage(endpoint=server.endpoint, threads=1) as asked:
            looking = asyncio.create_task(asked.look(KEY))
            await eventually(lambda: len(server.connections) == 1)
            looking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await looking
            await eventually(lambda: not server.connections, within=5)

    async def test_thread_of_a_cancelled_look_serves_the_next_one(self) -> None:
        states: list[Behaviour] = [silent, answering(FIRST_BLOCK)]

        async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await states.pop(0)(reader, writer)

        async with storage_on(behave, threads=1) as asked:
            looking = asyncio.create_task(asked.look(KEY))
            await eventually(lambda: len(states) == 1)
            looking.cancel()
            assert isinstance(await asked.look(KEY), Found)

    async def test_cancelled_look_on_a_connection_from_the_pool_leaves_nothing_either(self) -> None:
        asked_again = asyncio.Event()

        async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(FIRST_BLOCK)
            await reader.readuntil(b"\r\n\r\n")
            asked_again.set()
            await silent(reader, writer)

        async with http_server(behave) as server, storage(endpoint=server.endpoint) as asked:
            assert isinstance(await asked.look(KEY), Found)
            looking = asyncio.create_task(asked.look(KEY))
            await asked_again.wait()
            looking.cancel()
            await eventually(lambda: not server.connections, within=5)
            assert server.served == 1

    async def test_look_cancelled_while_the_name_is_resolved_asks_for_nothing_afterwards(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        resolving, resolved = threading.Event(), threading.Event()
        real = socket.getaddrinfo

        def resolve(host: str, *arguments: Any) -> Any:
            resolving.set()
            resolved.wait(10)
            return real(host, *arguments)

        async with http_server(silent) as server:
            asked = storage(endpoint=server.endpoint)
            with monkeypatch.context() as patch:
                patch.setattr(socket, "getaddrinfo", resolve)
                looking = asyncio.create_task(asked.look(KEY))
                await asyncio.to_thread(resolving.wait, 10)
                looking.cancel()
                await asyncio.gather(looking, return_exceptions=True)
            resolved.set()
            async with asyncio.timeout(5):  # far less than the look would last
                await asked.close()

    async def test_look_that_has_not_begun_is_cancelled_without_a_trace(self) -> None:
        async with http_server(silent) as server, storage(endpoint=server.endpoint, threads=1) as asked:
            first, second = (asyncio.create_task(asked.look(KEY)) for _ in range(2))
            await eventually(lambda: len(server.connections) == 1)
            second.cancel()
            first.cancel()
            await asyncio.gather(first, second, return_exceptions=True)
            await eventually(lambda: not server.connections, within=5)
            assert server.served == 1


class TestClosing:
    async def test_closing_waits_for_the_lookups_under_way_and_for_those_that_wait(self) -> None:
        release = asyncio.Event()

        async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await release.wait()
            await answering(FIRST_BLOCK)(reader, writer)

        async with http_server(behave) as server:
            asked = storage(endpoint=server.endpoint, threads=1)
            looking = [asyncio.create_task(asked.look(KEY)) for _ in range(3)]
            await eventually(lambda: len(server.connections) == 1)
            closing = asyncio.create_task(asked.close())
            for _ in range(10):
                await asyncio.sleep(0)
            assert not closing.done()
            release.set()
            assert {type(evidence) for evidence in await asyncio.gather(*looking)} == {Found}
            await closing
        await eventually(lambda: not threads())

    async def test_closing_gives_up_what_hangs(self) -> None:
        async with http_server(silent) as server:
            asked = storage(endpoint=server.endpoint, storage_timeout=SHORT)
            looking = asyncio.create_task(asked.look(KEY))
            await eventually(lambda: len(server.connections) == 1)
            await asked.close()
            assert isinstance(await looking, Unreachable)
            await eventually(lambda: not server.connections and not threads(), within=5)

    async def test_closed_storage_answers_nothing_and_may_be_closed_again(self) -> None:
        asked = storage(endpoint="127.0.0.1:1")
        await asked.close()
        await asked.close()
        assert await asked.look(KEY) == Unreachable(code="CLOSED", connection_failed=False)


async def test_nothing_secret_is_logged_or_shown(
    module_bucket: Bucket, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    module_bucket.put(KEY, OGG.content, OGG.content_type)
    shown: list[object] = []
    for different in ({}, {"secret_key": "not-this-one"}, {"bucket": "nobody-made-this"}):
        async with storage(**module_bucket.access(**different)) as asked:
            shown += [asked, await asked.look(KEY), await asked.look("calls/none.ogg")]
    async with storage_on(answering(s3_refusal(500, "https://secret.example/key"))) as asked:
        shown.append(await asked.look(KEY))
    for secret in (module_bucket.server.secret_key, "not-this-one", "http", KEY, module_bucket.name):
        assert secret not in caplog.text + repr(shown)


def _address(endpoint: str) -> tuple[str, int]:
    host, _, port = endpoint.partition(":")
    return host, int(port or 80)


def header_at_the_end(distance: int, format: RecordingFormat = RecordingFormat.MP4) -> bytes:
    """A recording with so many bytes of media before its header."""
    content = media_file(format).content
    header = content.index(b"moov") - 4
    media = (distance + 8).to_bytes(4) + b"mdat" + bytes(distance)
    return content[:header] + media + content[header:]


def long_recording(format: RecordingFormat) -> bytes:
    """Three million bytes, of which most say nothing."""
    match format:
        case RecordingFormat.MP4 | RecordingFormat.M4A:
            return header_at_the_end(3_000_000, format)
        case RecordingFormat.WAV:
            return sound_wave(3_000_000)
        case _:
            content = media_file(format).content
            return content[:20_000] + bytes(3_000_000) + content[-500:]


def sound_wave(size: int) -> bytes:
    file = BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8_000)
        sound.writeframes(bytes(size))
    return file.getvalue()


def _no_address(reason: int) -> Callable[..., Any]:
    def getaddrinfo(*_: object, **__: object) -> Any:
        raise socket.gaierror(reason, "no address")

    return getaddrinfo
