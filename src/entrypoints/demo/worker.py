"""The demo's worker: a process of its own, ``messenger-jobs worker`` with a folder as storage and a file as broker."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Final

from ...adapters.local.event_publisher import JsonLinesEventPublisher
from ...adapters.local.recording_storage import FolderRecordingStorage
from ..bootstrap import Application, bootstrap
from ..settings import Settings
from .deals import MAX_ATTEMPTS

_CHATS: Final = "MESSENGER_CHAT_PROVISION_RETRY_"
_RECORDINGS: Final = "MESSENGER_RECORDING_FINALIZE_RETRY_"


def chat_settings(database_url: str) -> dict[str, str]:
    """Short waits, and few attempts, so that a row's whole life can be watched."""
    return {
        "MESSENGER_DATABASE_URL": database_url,
        "MESSENGER_LOG_LEVEL": "error",
        f"{_CHATS}POLLING_INTERVAL": "0.5",
        f"{_CHATS}MAX_ATTEMPTS": str(MAX_ATTEMPTS),
        f"{_CHATS}BACKOFF_BASE": "0.5",
        f"{_CHATS}BACKOFF_CAP": "1",
        f"{_CHATS}CONCURRENCY": "2",
    }


@asynccontextmanager
async def running_worker(
    database_url: str, folder: Path, events: Path
) -> AsyncGenerator[asyncio.subprocess.Process]:
    """A worker with both jobs and the relay, killed at the end if it has not ended by then."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MESSENGER_")}
    worker = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", __name__, str(folder), str(events)),
        env={**inherited, **chat_settings(database_url), **_OTHER_SETTINGS},
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield worker
    finally:
        if worker.returncode is None:
            worker.kill()
            await worker.wait()


# The S3 settings belong to a bucket that is not asked.
_OTHER_SETTINGS: Final[Mapping[str, str]] = {
    "MESSENGER_RECORDINGS_ENABLED": "true",
    "MESSENGER_S3_ENDPOINT": "unused",
    "MESSENGER_S3_ACCESS_KEY": "unused",
    "MESSENGER_S3_SECRET_KEY": "unused",
    "MESSENGER_S3_BUCKET_CALL_RECORDINGS": "unused",
    f"{_RECORDINGS}POLLING_INTERVAL": "0.5",
    f"{_RECORDINGS}BACKOFF_BASE": "2",
    f"{_RECORDINGS}BACKOFF_CAP": "2",
    f"{_RECORDINGS}STORAGE_TIMEOUT": "1.5",
    f"{_RECORDINGS}CONCURRENCY": "2",
    "MESSENGER_OUTBOX_RELAY_POLLING_INTERVAL": "0.5",
}


def main() -> None:
    """The process."""
    from ..cli import app  # noqa: PLC0415 - which knows the demo

    folder, events = map(Path, sys.argv[1:])

    def in_files(settings: Settings) -> AbstractAsyncContextManager[Application]:
        return bootstrap(
            settings, storage=FolderRecordingStorage(folder), publisher=JsonLinesEventPublisher(events)
        )

    app(["worker"], obj=in_files)


if __name__ == "__main__":
    main()
