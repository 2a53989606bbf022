"""Whether recordings can be looked up in the bucket."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import uuid4

from attrs import frozen

from ...application.ports.check import CheckedItem, failed, ok
from ...application.ports.recording_storage import RecordingStorage
from ...domain.evidence import Empty, Found, Missing, StorageMisconfigured, Unreachable, Unsupported

STORAGE: Final = "storage"

SENTENCES: Final[Mapping[str, str]] = {
    # what a person must set up
    "NO_SUCH_BUCKET": "MESSENGER_S3_BUCKET_CALL_RECORDINGS: the bucket does not exist",
    "UNKNOWN_ACCESS_KEY": "MESSENGER_S3_ACCESS_KEY: the storage does not know this access key",
    "WRONG_SECRET_KEY": "MESSENGER_S3_SECRET_KEY: the storage refuses the secret key",
    "CREDENTIALS_EXPIRED": "MESSENGER_S3_ACCESS_KEY: the access key has expired",
    "CLOCK_SKEWED": "the clock of this machine differs too much from the storage's",
    "WRONG_REGION": "MESSENGER_S3_REGION: the bucket is in another region",
    "ACCESS_DENIED": "the access key needs the permissions to list the bucket and to get its objects",
    "NOT_AN_S3_ANSWER": "MESSENGER_S3_ENDPOINT: what answers there is no S3 storage",
    "CERTIFICATE_REFUSED": "MESSENGER_S3_ENDPOINT: the certificate is out of date, of another host, or not trusted",
    "TLS_FAILED": "MESSENGER_S3_SECURE: TLS could not be agreed on; perhaps the endpoint has none",
    "NO_SUCH_HOST": "MESSENGER_S3_ENDPOINT: no host has this name",
    # what may pass by itself
    "CONNECTION_REFUSED": "MESSENGER_S3_ENDPOINT: the connection is refused",
    "HOST_UNREACHABLE": "MESSENGER_S3_ENDPOINT: the host cannot be reached",
    "CONNECT_TIMED_OUT": "MESSENGER_S3_ENDPOINT: no connection was made in time",
    "NAME_NOT_RESOLVED": "MESSENGER_S3_ENDPOINT: the name could not be looked up",
    "CONNECTION_LOST": "the storage ended the connection; MESSENGER_S3_SECURE says whether it speaks TLS",
    "READ_TIMED_OUT": "the storage did not answer in time",
    "TIMED_OUT": "the storage did not answer in time",
    "SLOW_DOWN": "the storage asks to be left in peace for now",
    "UNREADABLE_ANSWER": "the storage's answer could not be read",
}


@frozen
class StorageCheck:
    """See `Check`: asks for an object that is not there, as for a recording's."""

    _storage: RecordingStorage

    async def __call__(self) -> Sequence[CheckedItem]:
        """See `Check`."""
        evidence = await self._storage.look(f"messenger-jobs-check/{uuid4()}")
        match evidence:
            case Missing() | Found() | Empty() | Unsupported():
                return [ok(STORAGE, "the bucket exists, and the access key may look for recordings in it")]
            case StorageMisconfigured() | Unreachable():
                sentence = SENTENCES.get(evidence.code, "the storage answered with an error of its own")
                return [failed(STORAGE, f"{sentence} ({evidence.code})", evidence.code)]
