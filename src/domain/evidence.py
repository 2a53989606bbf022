"""What storage said about a recording's object when it was asked. *Missing* and *no answer* are different types."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from uuid import UUID

from attrs import frozen


class RecordingFormat(StrEnum):
    """Container formats a recording may have."""

    MP4 = "Mp4"
    WEBM = "WebM"
    OGG = "Ogg"
    MP3 = "Mp3"
    WAV = "Wav"
    M4A = "M4a"


@frozen(kw_only=True)
class Found:
    """The object is there, is not empty, and its content type and leading bytes agree on ``format``.

    ``stated_duration`` comes from the object's metadata ``duration-seconds``, ``measured_duration`` from the media's
    header; either may be None, or untrue: which one is adopted is the domain's decision.
    """

    file_id: UUID
    size_bytes: int
    format: RecordingFormat
    stated_duration: timedelta | None
    measured_duration: timedelta | None


@frozen(kw_only=True)
class Missing:
    """Storage answered that there is no such object, and the bucket exists."""


@frozen(kw_only=True)
class Empty:
    """The object is there and has no bytes; counts as absent."""


@frozen(kw_only=True)
class Unsupported:
    """This object cannot be a recording as configured: unknown content type, or bytes that contradict it.

    ``code`` is stable and free of personal data, for example ``UNKNOWN_CONTENT_TYPE``.
    """

    code: str


@frozen(kw_only=True)
class Unreachable:
    """No usable answer: time-out, refused or reset connection, 5xx, 429. Says nothing about the object.

    ``connection_failed`` tells that not even a connection could be had, as opposed to a server that answers badly.
    """

    code: str
    connection_failed: bool


@frozen(kw_only=True)
class StorageMisconfigured:
    """Only a person can repair this, and it concerns the whole bucket: missing bucket, refused credentials, TLS."""

    code: str


Evidence = Found | Missing | Empty | Unsupported | Unreachable | StorageMisconfigured
