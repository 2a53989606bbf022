"""Recordings in a bucket."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from typing import Final, Self

import certifi
from attrs import frozen
from minio import Minio
from minio.error import S3Error
from urllib3 import BaseHTTPResponse
from urllib3.exceptions import IncompleteRead

from ...domain.evidence import Empty, Evidence, Missing, StorageMisconfigured, Unreachable, Unsupported
from ..media.examination import examine
from ..media.object_key import is_object_key
from ..media.stored_object import BLOCK, StoredObject
from .abortable_call import AbortableCall, abortable_pool
from .errors import STORAGE_ERRORS, NotAnS3Answer, refusal_of

_CONTENT_RANGE: Final = re.compile(r"bytes (\d+)-\d+/(\d+)")
_USER_METADATA: Final = "x-amz-meta-"


@frozen
class _Part:
    """Some bytes of an object, and what the answer that brought them said about it."""

    content: bytes
    object_size: int
    headers: Mapping[str, str]


class S3RecordingStorage:
    """See `RecordingStorage`: the category ``CALL_RECORDINGS`` is a bucket.

    An object is asked for by a GET of its first block, not by a HEAD: a refusal then says its reason, and a recording
    whose header is in that block costs one request. Lookups run in at most `threads` threads of their own; more of them
    wait, and `storage_timeout` runs meanwhile. A thread outlives its lookup, given up or cancelled, by no more than the
    resolution of the host's name and the connect time-out.

    Used by ``async with``, or ended by `close`.
    """

    def __init__(
        self,
        *,
        endpoint: str,
        access_key: str,
        secret_key: str,
        region: str,
        bucket: str,
        secure: bool = True,
        ca_file: str | None = None,
        threads: int = 8,
        storage_timeout: timedelta = timedelta(seconds=15),
        connect_timeout: timedelta = timedelta(seconds=2),
        read_timeout: timedelta = timedelta(seconds=5),
    ) -> None:
        """`endpoint` is ``host`` or ``host:port``; without a `ca_file` certificates are verified against certifi's.

        Connects to nothing yet. Raises `ValueError` for an endpoint that is none.
        """
        self._bucket = bucket
        self._storage_timeout = storage_timeout.total_seconds()
        self._pool = abortable_pool(
            connections=threads,
            connect_timeout=connect_timeout.total_seconds(),
            read_timeout=read_timeout.total_seconds(),
            ca_file=ca_file or certifi.where(),
        )
        self._client = Minio(
            endpoint,
            access_key=access_key,
            secret_key=secret_key,
            region=region,
            secure=secure,
            http_client=self._pool,
        )
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="recording-storage")
        self._under_way: set[Future[Evidence]] = set()

    async def look(self, object_key: str) -> Evidence:
        """See `RecordingStorage.look`. After `close` there is no answer any more (``CLOSED``)."""
        call = AbortableCall()
        try:
            work = self._executor.submit(call.run, self._answer, object_key)
        except RuntimeError:
            return Unreachable(code="CLOSED", connection_failed=False)
        self._under_way.add(work)
        work.add_done_callback(self._under_way.discard)
        try:
            async with asyncio.timeout(self._storage_timeout):
                return await asyncio.wrap_future(work)
        except TimeoutError:
            return Unreachable(code="TIMED_OUT", connection_failed=not call.connected)
        finally:
            if not work.done():
                call.abort()

    async def close(self) -> None:
        """Take no more lookups, wait for those under way, at most `storage_timeout`, and close every connection.

        Cancelled, it waits no longer; a lookup under way still ends by its own time-out.
        """
        self._executor.shutdown(wait=False)
        try:
            if work := [asyncio.wrap_future(work) for work in [*self._under_way]]:
                await asyncio.wait(work, timeout=self._storage_timeout)
        finally:
            self._pool.clear()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _answer(self, object_key: str) -> Evidence:
        if not is_object_key(object_key):
            return Unsupported(code="INVALID_OBJECT_KEY")
        try:
            return self._evidence(object_key)
        except STORAGE_ERRORS as error:
            return refusal_of(error)

    def _evidence(self, object_key: str) -> Evidence:
        try:
            start = self._part(object_key, 0, BLOCK)
        except S3Error as error:
            match error.code:
                case "NoSuchKey":
                    return self._missing()
                case "InvalidRange":
                    return self._without_a_first_byte(object_key)
                case _:
                    raise
        return examine(
            StoredObject(
                object_key=object_key,
                size_bytes=start.object_size,
                content_type=start.headers.get("content-type"),
                metadata=_user_metadata(start.headers),
                read=lambda offset, length: (
                    self._part(object_key, offset, length).content if offset else start.content
                ),
            )
        )

    def _missing(self) -> Missing | StorageMisconfigured:
        # There are servers that say the same of every key in a bucket that does not exist.
        if self._client.bucket_exists(self._bucket):
            return Missing()
        return StorageMisconfigured(code="NO_SUCH_BUCKET")

    def _without_a_first_byte(self, object_key: str) -> Empty:
        if self._client.stat_object(self._bucket, object_key).size == 0:
            return Empty()
        raise NotAnS3Answer("there is no first byte in an object of some size")

    def _part(self, object_key: str, offset: int, length: int) -> _Part:
        """At most `length` bytes from `offset` on: fewer only at the object's end."""
        response = self._client.get_object(self._bucket, object_key, offset=offset, length=length)
        try:
            size = _object_size(response, offset)
            wanted = min(length, size - offset)
            content = response.read(wanted, decode_content=False)
        finally:
            response.close()  # read to its end, its connection is back in the pool already
        if len(content) < wanted:
            raise IncompleteRead(len(content), wanted - len(content))
        return _Part(content, size, response.headers)


def _object_size(response: BaseHTTPResponse, offset: int) -> int:
    """The size of the whole object; raises `NotAnS3Answer` when the answer does not start at `offset` of an object."""
    headers = response.headers
    if "etag" in headers:  # a gateway's page of good news has none
        content_range = _CONTENT_RANGE.fullmatch(headers.get("content-range", ""))
        if response.status == 206 and content_range and int(content_range[1]) == offset:
            return int(content_range[2])
        if response.status == 200 and offset == 0 and "content-length" in headers:
            return int(headers["content-length"])  # of a server that knows no ranges, or an empty object
    raise NotAnS3Answer("the answer is not a part of an object")


def _user_metadata(headers: Mapping[str, str]) -> dict[str, str]:
    return {
        name[len(_USER_METADATA) :]: value
        for name, value in headers.items()
        if name.lower().startswith(_USER_METADATA)
    }
