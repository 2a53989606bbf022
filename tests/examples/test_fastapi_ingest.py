from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any
from uuid import UUID, uuid4

import pytest
from httpx import ASGITransport, AsyncClient, Response

from examples.fastapi_ingest import create_app
from tests.examples.host_rows import an_uploading_recording, query, status_of, topics

TABLE = "create table ingested_files (file_id uuid primary key, recording_id uuid not null)"


@pytest.fixture
async def client(database_url: str) -> AsyncGenerator[AsyncClient]:
    query(database_url, TABLE)
    app = create_app(database_url)
    # An error of the service is an answer here, as behind a real server.
    transport = ASGITransport(app, raise_app_exceptions=False)
    async with (
        app.router.lifespan_context(app),
        AsyncClient(transport=transport, base_url="http://host") as client,
    ):
        yield client


async def put_file(client: AsyncClient, recording_id: UUID, **changes: Any) -> Response:
    upload = {"file_id": str(uuid4()), "size_bytes": 4096, "duration_seconds": 3, "format": "WebM", **changes}
    return await client.put(f"/internal/recordings/{recording_id}/file", json=upload)


async def test_request_makes_the_recording_available_with_what_the_service_writes_itself(
    database_url: str, client: AsyncClient
) -> None:
    recording = an_uploading_recording(database_url)
    answer = await put_file(client, recording.id)
    assert (answer.status_code, answer.json()) == (200, "available")
    assert status_of(database_url, recording.id) == "Available"
    assert topics(database_url) == ["pin.messenger.call-recording-available.v1"]
    assert query(database_url, "select status from messenger.recording_finalize_attempts") == [("Done",)]
    assert query(database_url, "select recording_id from ingested_files") == [(recording.id,)]


async def test_request_that_fails_after_finalizing_leaves_nothing(
    database_url: str, client: AsyncClient
) -> None:
    recording, file_id = an_uploading_recording(database_url), uuid4()
    query(database_url, "insert into ingested_files values (%s, %s)", file_id, uuid4())
    answer = await put_file(client, recording.id, file_id=str(file_id))
    assert answer.status_code == 500
    assert status_of(database_url, recording.id) == "Uploading"
    assert topics(database_url) == []
    assert query(database_url, "select status from messenger.recording_finalize_attempts") == [("Pending",)]


async def test_answer_never_promises_what_then_fails_to_be_committed(
    database_url: str, client: AsyncClient
) -> None:
    recording = an_uploading_recording(database_url)
    query(database_url, "alter table ingested_files add unique (recording_id) deferrable initially deferred")
    query(database_url, "insert into ingested_files values (%s, %s)", uuid4(), recording.id)
    assert (await put_file(client, recording.id)).status_code == 500
    assert status_of(database_url, recording.id) == "Uploading"


async def test_repeated_request_is_told_so_and_announces_nothing(
    database_url: str, client: AsyncClient
) -> None:
    recording = an_uploading_recording(database_url)
    answers = [(await put_file(client, recording.id)).json() for _ in range(2)]
    assert answers == ["available", "already_available"]
    assert len(topics(database_url)) == 1


async def test_unknown_recording_and_an_empty_file_are_refused(
    database_url: str, client: AsyncClient
) -> None:
    assert (await put_file(client, uuid4())).status_code == 404
    recording = an_uploading_recording(database_url)
    assert (await put_file(client, recording.id, size_bytes=0)).status_code == 422
    assert status_of(database_url, recording.id) == "Uploading"
