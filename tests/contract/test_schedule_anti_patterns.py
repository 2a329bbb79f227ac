"""What the specification of scheduled execution calls anti-patterns, where a test can see them. That the slot runner imports no
graph code, that the service needs a secret, and who writes which table, are among the invariants."""

from __future__ import annotations

from typing import Any

import pytest

from cortex_plane.http.embedded import serve_itself
from cortex_plane.testing import TestPlane
from tests.contract.schedule_scene import reporting

pytestmark = pytest.mark.anyio


async def test_schedules_are_not_polled(plane: TestPlane, database_url: str) -> None:
    """The job of a slot waits in the queue. While nothing is due, a worker does not look at the schedules."""
    reporting(plane)
    await plane.schedules.add("hourly", "agent:report", "0 * * * *")
    await plane.work()
    store: Any = plane.store
    asked: list[str] = []
    for name in ("read", "write", "write_small", "write_batch", "write_once"):
        original = getattr(store.database, name)

        def noting(statement: str, *values: Any, original: Any = original, **named: Any) -> Any:
            asked.append(statement)
            return original(statement, *values, **named)

        setattr(store.database, name, noting)

    await plane.run_worker(until_idle=True)

    assert asked
    looks = [name for name in asked if name.startswith("slots/")]
    assert looks in ([], ["slots/stuck"])  # The reconciler's look when a worker starts, if it comes to that before the end.
    allowed = {"schedules/any", "schedules/take_turn", "schedules/list"}  # The start of a worker, and every five minutes.
    assert {name for name in asked if name.startswith("schedules/")} <= allowed


async def test_nothing_is_executed_without_an_idempotency_key(plane: TestPlane) -> None:
    app = serve_itself(plane)

    for path, operations in app.openapi()["paths"].items():
        if path.endswith("/runs") and "post" in operations:
            keys = [one for one in operations["post"]["parameters"] if one["name"] == "Idempotency-Key"]
            assert [key["required"] for key in keys] == [True], path
