"""The proxy between a real client and a real server: the fault for which it exists."""

from __future__ import annotations

import psycopg
import pytest

from tests.support.postgres_proxy import through_proxy


async def test_commit_whose_answer_is_lost_is_an_error_and_yet_happens(empty_database_url: str) -> None:
    async with through_proxy(empty_database_url) as (proxy, url):
        connection = await psycopg.AsyncConnection.connect(url)
        async with connection:
            await connection.execute("create table kept as select 1 as number")
            proxy.lose_answer(to=b"COMMIT")
            with pytest.raises(psycopg.OperationalError):
                await connection.commit()
    with psycopg.connect(empty_database_url) as another:
        assert another.execute("select number from kept").fetchall() == [(1,)]
