"""A FastAPI service finishes a recording inside the request's own transaction.

What the request writes itself and what `FinalizeUploadedRecording` writes (the recording, its event, its finalize row)
is committed together, or not at all.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated, Any
from uuid import UUID, uuid4

from fastapi import Depends, FastAPI, HTTPException, Request
from messenger_jobs.adapters.postgres import HostTransaction, PostgresFinalizationStore
from messenger_jobs.adapters.system import SystemClock
from messenger_jobs.application import Announcer, FinalizeUploadedRecording, RecordingFormat, UploadResult
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool
from pydantic import BaseModel, NonNegativeInt, PositiveInt


class Upload(BaseModel):
    """What the recorder says of its file."""

    file_id: UUID
    size_bytes: PositiveInt
    duration_seconds: NonNegativeInt
    format: RecordingFormat


async def request_transaction(request: Request) -> AsyncGenerator[AsyncConnection[Any]]:
    """The pool commits it when the endpoint returns, and rolls it back when the endpoint raises."""
    async with request.app.state.pool.connection() as connection:
        yield connection


# Without the scope the commit would come after the answer, and the answer could promise what fails to be committed.
RequestTransaction = Annotated[AsyncConnection[Any], Depends(request_transaction, scope="function")]


def create_app(database_url: str) -> FastAPI:
    """The service; its pool is opened and closed with it."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        async with AsyncConnectionPool(database_url, open=False) as pool:
            app.state.pool = pool
            yield

    app = FastAPI(lifespan=lifespan)
    clock = SystemClock()

    @app.put("/internal/recordings/{recording_id}/file")
    async def ingest(recording_id: UUID, upload: Upload, connection: RequestTransaction) -> UploadResult:
        finalize = FinalizeUploadedRecording(
            store=PostgresFinalizationStore(HostTransaction(connection)),
            announcer=Announcer(clock=clock, new_id=uuid4),
            clock=clock,
        )
        result = await finalize(recording_id, **upload.model_dump(), correlation_id=uuid4())
        if result is UploadResult.UNKNOWN_RECORDING:
            raise HTTPException(404, "there is no such recording")
        await connection.execute(  # the service's own table
            "insert into ingested_files (file_id, recording_id) values (%s, %s)",
            (upload.file_id, recording_id),
        )
        return result

    return app
