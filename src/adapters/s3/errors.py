"""What every failure to get an answer from S3, and every answer that is a refusal, means.

Nothing that a server says becomes part of a code: codes are stored, logged and counted.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from typing import Final
from xml.etree.ElementTree import ParseError

from minio.error import InvalidResponseError, MinioException, S3Error, ServerError
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    LocationParseError,
    NameResolutionError,
    NewConnectionError,
    ReadTimeoutError,
    SSLError,
)

from ...domain.evidence import StorageMisconfigured, Unreachable, Unsupported

Refusal = Unsupported | Unreachable | StorageMisconfigured


class NotAnS3Answer(Exception):
    """An answer that S3 does not give: another server stands at this address."""


STORAGE_ERRORS: Final = (
    MinioException,
    NotAnS3Answer,
    HTTPError,
    OSError,
    # minio raises these where it cannot parse an answer:
    ParseError,
    ValueError,
)

_MISCONFIGURED: Final[Mapping[str | None, str]] = {
    "NoSuchBucket": "NO_SUCH_BUCKET",
    "InvalidBucketName": "NO_SUCH_BUCKET",
    "InvalidAccessKeyId": "UNKNOWN_ACCESS_KEY",
    "SignatureDoesNotMatch": "WRONG_SECRET_KEY",
    "ExpiredToken": "CREDENTIALS_EXPIRED",
    "InvalidToken": "CREDENTIALS_EXPIRED",
    "RequestTimeTooSkewed": "CLOCK_SKEWED",
    "AuthorizationHeaderMalformed": "WRONG_REGION",
    "IllegalLocationConstraintException": "WRONG_REGION",
}


def refusal_of(error: Exception) -> Refusal:
    """Classify one of `STORAGE_ERRORS`; a key that is not there is for the caller to tell from a missing bucket."""
    match error:
        case S3Error():
            return _of_s3(error.code, error.response.status)
        case ServerError():
            return _of_s3(None, error.status_code)
        case InvalidResponseError():
            status = error._code  # pyright: ignore[reportPrivateUsage]  # there is no other way to it
            return _of_stranger(status)
        case NotAnS3Answer():
            return StorageMisconfigured(code="NOT_AN_S3_ANSWER")
        case SSLError():
            return _of_tls(error)
        case HTTPError():
            return _of_connection(error)
        case _:
            return Unreachable(code="UNREADABLE_ANSWER", connection_failed=False)


def _of_s3(code: str | None, status: int) -> Refusal:
    if code == "InvalidObjectState":  # moved to an archive, from where a person must fetch it
        return Unsupported(code="OBJECT_ARCHIVED")
    if code in _MISCONFIGURED:
        return StorageMisconfigured(code=_MISCONFIGURED[code])
    if code == "SlowDown":
        return Unreachable(code="SLOW_DOWN", connection_failed=False)
    if status in (
        401,
        403,
    ):  # without permission to list, that is also the answer for a key that is not there
        return StorageMisconfigured(code="ACCESS_DENIED")
    if 300 <= status < 400:
        return StorageMisconfigured(code="WRONG_REGION")
    if status == 404:
        return StorageMisconfigured(code="NOT_AN_S3_ANSWER")
    return Unreachable(code=f"HTTP_{status}", connection_failed=False)


def _of_stranger(status: int) -> Refusal:
    """An answer without S3's XML: from a proxy in front of it, or from something else altogether."""
    if status in (408, 409, 429) or status >= 500:
        return Unreachable(code=f"HTTP_{status}", connection_failed=False)
    if status in (401, 403):
        return StorageMisconfigured(code="ACCESS_DENIED")
    return StorageMisconfigured(code="NOT_AN_S3_ANSWER")


def _of_tls(error: SSLError) -> Refusal:
    reason = error.args[0] if error.args else None
    if isinstance(reason, ssl.SSLCertVerificationError):
        return StorageMisconfigured(code="CERTIFICATE_REFUSED")
    if isinstance(reason, (ssl.SSLEOFError, ssl.SSLZeroReturnError)):
        return Unreachable(code="CONNECTION_LOST", connection_failed=False)
    return StorageMisconfigured(code="TLS_FAILED")


def _of_connection(error: HTTPError) -> Refusal:
    match error:  # in this order: the first two are kinds of the third
        case NameResolutionError():
            return _of_name(error.__cause__)
        case NewConnectionError():
            refused = isinstance(error.__cause__, ConnectionRefusedError)
            code = "CONNECTION_REFUSED" if refused else "HOST_UNREACHABLE"
            return Unreachable(code=code, connection_failed=True)
        case ConnectTimeoutError():
            return Unreachable(code="CONNECT_TIMED_OUT", connection_failed=True)
        case LocationParseError():
            return StorageMisconfigured(code="NO_SUCH_HOST")
        case ReadTimeoutError():
            return Unreachable(code="READ_TIMED_OUT", connection_failed=False)
        case _:
            return Unreachable(code="CONNECTION_LOST", connection_failed=False)


def _of_name(reason: BaseException | None) -> Refusal:
    if isinstance(reason, socket.gaierror) and reason.errno in (socket.EAI_NONAME, socket.EAI_NODATA):
        return StorageMisconfigured(code="NO_SUCH_HOST")
    return Unreachable(code="NAME_NOT_RESOLVED", connection_failed=True)  # the name server is out of order
