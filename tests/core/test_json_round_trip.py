"""The normal form comes back from both databases, byte for byte."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apsw
import orjson
import psycopg
import pytest
from hypothesis import given, settings

from cortex_plane.json import MAX_DEPTH, encode, loads
from cortex_plane.testing import PostgresCluster, TestPlane
from tests.core.values import json_values

EXAMPLES = settings(max_examples=300, deadline=None)

AWKWARD: dict[str, Any] = {
    "integers": [0, -1, 2**53 + 1, 2**63 - 1, -(2**63), 2**63, 2**64 - 1],
    "floats": [
        0.1,
        1e-9,
        5e-324,
        1.7976931348623157e308,
        1e22,
        1e19,
        -1e19,
        2.0**63,
        2.0**64,
        1e30,
        1e16,
        -0.0,
        123456789.123456789,
    ],
    "texts": ["", "\u2028", "\U0001f600", '"\\/\b\f\n\r\t', "\x01", "é", "e\u0301", "\ufeff", "\uffff"],
    "keys": {"": 1, "aa": 1, "b": 1, "B": 1, "é": 1, "z" * 300: 1, "a.b": 1, "$": 1, "a\tb": 1},
    "empty": [{}, [], [[]], [{}], None, True, False],
}


@pytest.fixture(scope="module")
def postgres(cluster: PostgresCluster) -> Iterator[psycopg.Connection]:
    with psycopg.connect(cluster.url(), autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="module")
def sqlite() -> Iterator[apsw.Connection]:
    connection = apsw.Connection(":memory:")
    connection.execute("create table kept (document text check (json_valid(document))) strict")
    yield connection
    connection.close()


@EXAMPLES
@given(value=json_values)
def test_a_round_trip_through_jsonb_changes_nothing(postgres: psycopg.Connection, value: Any) -> None:
    text = encode(value)
    [back] = postgres.execute("select cast(cast(%s as jsonb) as text)", [text]).fetchone() or [""]

    assert encode(loads(back)) == text


@EXAMPLES
@given(value=json_values)
def test_a_round_trip_through_sqlite_changes_nothing(sqlite: apsw.Connection, value: Any) -> None:
    text = encode(value)
    batch = orjson.dumps([{"payload": orjson.Fragment(text)}]).decode()
    sqlite.execute("delete from kept")
    sqlite.execute("insert into kept select value -> 'payload' from json_each(?)", (batch,))

    assert encode(loads(str(sqlite.execute("select document from kept").get))) == text


@pytest.mark.anyio
@pytest.mark.parametrize("name", AWKWARD)
async def test_a_payload_comes_back_as_it_was_given(plane: TestPlane, name: str) -> None:
    @plane.agent("keep")
    async def keep(ctx: Any, value: Any) -> Any:
        return value

    job = await plane.submit("keep", {"value": AWKWARD[name]})
    await plane.work()

    text = encode(AWKWARD[name])
    assert encode((await job.job()).payload["value"]) == text
    assert encode(await job.result()) == text


@pytest.mark.anyio
async def test_the_deepest_allowed_payload_is_stored_and_comes_back(plane: TestPlane) -> None:
    @plane.agent("keep")
    async def keep(ctx: Any, value: Any) -> Any:
        return value

    value: Any = 1
    for _ in range(MAX_DEPTH - 1):
        value = [value]
    job = await plane.submit("keep", {"value": value})
    await plane.work()

    assert await job.result() == value
